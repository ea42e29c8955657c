"""Level 1: one solid with exact sizes, plates, shafts, tubes, and bodies that stand on or beside each other."""

import math
from itertools import pairwise
from random import Random
from typing import Any

from environments.domains._geometry_family import Family, Problem, edited, half, point, relation, without
from environments.domains._geometry_tools import call


def _primitive(rng: Random, kind: str) -> Problem:
    a, b, c = rng.sample(range(12, 70), 3)
    x, y, z = (rng.randrange(-40, 41) for _ in range(3))
    at = [x, y, z]
    small = rng.randrange(3, 9)
    told, made, *wrong = {
        "box": (
            f"a box {a} mm long in x, {b} mm in y and {c} mm in z; its corner of least x, y and z is at {point(*at)}",
            call("box", name="part", size=[a, b, c], at=at),
            {"size": [b, a, c]},
            {"at": [x - half(a), y - half(b), z - half(c)]},
            {"size": [a, b, c + 1]},
        ),
        "centred_box": (
            f"a box {a} mm long in x, {b} mm in y and {c} mm in z, with its centre at {point(*at)}",
            call("box", name="part", size=[a, b, c], at=[x - half(a), y - half(b), z - half(c)]),
            {"at": at},
            {"size": [a, c, b]},
            {"at": [x - half(a), y - half(b), z]},
        ),
        "cylinder": (
            (
                f"an upright cylinder (axis along z) of diameter {2 * a} mm and height {b} mm; "
                f"the centre of its base is at {point(*at)}"
            ),
            call("cylinder", name="part", radius=a, height=b, at=at),
            {"radius": 2 * a},
            {"axis": "x"},
            {"at": [x, y, z - half(b)]},
        ),
        "lying_cylinder": (
            f"a cylinder of diameter {2 * a} mm whose axis runs along x from {point(*at)} to {point(x + b, y, z)}",
            call("cylinder", name="part", radius=a, height=b, at=at, axis="x"),
            {"radius": 2 * a},
            {"axis": "z"},
            {"at": [x - b, y, z]},
        ),
        "sphere": (
            f"a sphere of diameter {2 * a} mm that rests on the plane z = {z}, above the point {point(x, y, z)}",
            call("sphere", name="part", radius=a, at=[x, y, z + a]),
            {"at": at},
            {"radius": 2 * a, "at": [x, y, z + 2 * a]},
            {"at": [x, y, z - a]},
        ),
        "cone": (
            (
                f"an upright cone of base diameter {2 * a} mm and height {b} mm, "
                f"its base centred at {point(*at)} and its tip above"
            ),
            call("cone", name="part", radius=a, top_radius=0, height=b, at=at),
            {"radius": 2 * a},
            {"radius": 0, "top_radius": a},
            {"top_radius": a},
        ),
        "frustum": (
            (
                f"a truncated cone, its axis along z: diameter {2 * (a + 6)} mm at the bottom, {2 * a} mm at the top, "
                f"height {b} mm, the centre of its bottom at {point(*at)}"
            ),
            call("cone", name="part", radius=a + 6, top_radius=a, height=b, at=at),
            {"radius": a, "top_radius": a + 6},
            {"top_radius": a + 6},
            {"radius": 2 * (a + 6), "top_radius": 2 * a},
        ),
        "ring": (
            (
                f"a ring (torus) around the z axis direction with its centre at {point(*at)}: outer diameter "
                f"{2 * (a + 10 + small)} mm, round tube of diameter {2 * small} mm"
            ),
            call("torus", name="part", radius=a + 10, tube_radius=small, at=at),
            {"radius": a + 10 + small},
            {"tube_radius": 2 * small},
            {"axis": "x"},
        ),
    }[kind]
    calls = (made,)
    mistakes = tuple(edited(calls, 0, **change) for change in wrong if isinstance(change, dict))
    return Problem(asks=f"Model {told}. Name it `part`.", calls=calls, wrong=mistakes)


def _prism(rng: Random, num_sides: int) -> Problem:
    radius, height = rng.randrange(15, 60), rng.randrange(8, 90)
    x, y = rng.randrange(-30, 31), rng.randrange(-30, 31)

    def corners(sides: int, distance: float) -> list[list[float]]:
        turns = [2 * math.pi * i / sides for i in range(sides)]
        return [[round(distance * math.cos(t), 4), round(distance * math.sin(t), 4)] for t in turns]

    calls = (call("extrude", name="bar", points=corners(num_sides, radius), height=height, at=[x, y, 0]),)
    return Problem(
        asks=f"Model a straight upright bar whose cross-section is a regular polygon with {num_sides} corners. The "
        f"corners lie {radius} mm from the bar's axis, one of them in the direction of +x. The axis is parallel to z "
        f"and passes through {point(x, y, 0)}; the bar reaches from z = 0 to z = {height}. It has {num_sides + 2} flat "
        "faces. Name it `bar`.",
        calls=calls,
        wrong=(
            edited(calls, 0, points=corners(num_sides + 1, radius)),
            edited(calls, 0, points=corners(num_sides, half(radius))),
            (call("cylinder", name="bar", radius=radius, height=height, at=[x, y, 0]),),
            edited(calls, 0, points=[[-u, v] for u, v in corners(num_sides, radius)])
            if num_sides % 2
            else (*calls, call("rotate", name="bar", angles=[0, 0, 180 / num_sides], about=[x, y, 0])),
        ),
        equivalent=(edited(calls, 0, points=corners(num_sides, radius)[::-1]),),
        faces=True,
    )


def _plate_holes(rng: Random, grid: tuple[int, int]) -> Problem:
    rows, columns = grid
    radius, pitch, edge = rng.randrange(2, 6), rng.randrange(16, 40), rng.randrange(9, 16)
    thick = rng.randrange(8, 32) / 2
    length, width = (columns - 1) * pitch + 2 * edge, (rows - 1) * pitch + 2 * edge
    calls = [
        call("box", name="plate", size=[length, width, thick]),
        call("cylinder", name="hole", radius=radius, height=thick + 2, at=[edge, edge, -1]),
    ]
    calls += [call("linear_pattern", name="hole", step=[pitch, 0, 0], count=columns)] if columns > 1 else []
    calls += [call("linear_pattern", name="hole", step=[0, pitch, 0], count=rows)] if rows > 1 else []
    calls += [call("difference", name="plate", minus=["hole"])]
    return Problem(
        asks=f"Model a flat plate {length} mm long in x, {width} mm wide in y and {thick:g} mm thick in z, with one "
        f"corner at the origin and the rest at positive coordinates. Drill {rows * columns} through-holes of diameter "
        f"{2 * radius} mm along z: {columns} along x and {rows} along y, {pitch} mm apart from centre to centre, the "
        f"centres of the outer ones {edge} mm from the plate's edges. Name it `plate`.",
        calls=tuple(calls),
        wrong=(
            edited(calls, 1, radius=2 * radius),
            edited(calls, 1, height=half(thick) + 1),
            edited(calls, 1, at=[edge + 2, edge, -1]),
            (calls[0],),
            (*calls[:-1], call("union", name="plate", of=["plate", "hole"])),
        ),
        equivalent=(_drilled_one_by_one(calls[0], rows, columns, radius, pitch, edge, thick),),
    )


def _drilled_one_by_one(plate: Any, rows: int, columns: int, radius: int, pitch: int, edge: int, thick: float) -> Any:
    places = [(i, j) for i in range(columns) for j in range(rows)]
    drills = [
        call("cylinder", name=f"d{n}", radius=radius, height=thick, at=[edge + i * pitch, edge + j * pitch, 0])
        for n, (i, j) in enumerate(places)
    ]
    return (plate, *drills, call("difference", name="plate", minus=[f"d{n}" for n in range(len(places))]))


def _shaft(rng: Random, variant: tuple[int, str]) -> Problem:
    num_steps, axis = variant
    radii = rng.sample(range(8, 40, 3), num_steps)
    lengths = [rng.randrange(10, 45) for _ in radii]
    place = "xyz".index(axis)

    def section(i: int, radius: float) -> Any:
        at = [0, 0, 0]
        at[place] = sum(lengths[:i])
        return call("cylinder", name=f"s{i}", radius=radius, height=lengths[i], at=at, axis=axis)

    join = call("union", name="shaft", of=[f"s{i}" for i in range(num_steps)])
    calls = (*(section(i, r) for i, r in enumerate(radii)), join)
    told = "; ".join(f"diameter {2 * r} mm over {n} mm" for r, n in zip(radii, lengths, strict=True))
    return Problem(
        asks=f"Model a stepped shaft, one solid, whose axis is the {axis} axis. It begins at {axis} = 0 and grows "
        f"towards positive {axis}; its sections, in this order, are: {told}. Name it `shaft`.",
        calls=calls,
        wrong=(
            (*(section(i, 2 * r) for i, r in enumerate(radii)), join),
            (*(section(i, r) for i, r in enumerate(reversed(radii))), join),
            (*(edited(calls, i, at=[0, 0, 0])[i] for i in range(num_steps)), join),
            (*calls, call("mirror", name="shaft", plane={"x": "yz", "y": "xz", "z": "xy"}[axis])),
            (*calls, call("rotate", name="shaft", angles=[90, 90, 0])),
        ),
    )  # fmt: skip


def _tube(rng: Random, variant: tuple[str, str]) -> Problem:
    kind, axis = variant
    outer, wall, length = rng.randrange(14, 45), rng.randrange(2, 7), rng.randrange(25, 110)
    floor = 0 if kind == "pipe" else wall
    place = "xyz".index(axis)
    start = [0.0, 0.0, 0.0]
    start[place] = floor or -1
    bore = length - floor + (1 if kind == "cup" else 2)
    calls = (
        call("cylinder", name="body", radius=outer, height=length, axis=axis),
        call("cylinder", name="bore", radius=outer - wall, height=bore, at=start, axis=axis),
        call("difference", name="body", minus=["bore"]),
    )
    ends = "open at both ends" if kind == "pipe" else f"closed at {axis} = 0 by a floor {wall} mm thick, open above"
    thicker = edited(calls, 1, radius=outer - 2 * wall) if outer > 2 * wall + 2 else edited(calls, 1, radius=half(wall))
    other = edited(calls, 1, at=[v if i != place else (wall if kind == "pipe" else -1) for i, v in enumerate(start)])
    return Problem(
        asks=f"Model a round {kind} along the {axis} axis, from {axis} = 0 to {axis} = {length}: outer diameter "
        f"{2 * outer} mm, wall {wall} mm thick, {ends}. Name it `body`.",
        calls=calls,
        wrong=(
            edited(edited(calls, 0, radius=2 * outer), 1, radius=2 * outer - wall),
            thicker,
            edited(other, 1, height=length + 5),
            (calls[0],),
            (calls[1], call("rename", name="bore", new_name="body")),
        ),
    )


def _stack(rng: Random, kinds: tuple[str, ...]) -> Problem:
    names = ["base", "middle", "top"][: len(kinds)] if len(kinds) == 3 else ["base", "top"]
    sizes = [sorted((rng.randrange(10, 60), rng.randrange(10, 60)), reverse=True) for _ in kinds]
    heights = [rng.randrange(8, 40) for _ in kinds]

    def solid(i: int, x: float = 0, y: float = 0, lift: float = 0) -> Any:
        (a, b), z = sizes[i], sum(heights[:i]) + lift
        if kinds[i] == "cylinder":
            return call("cylinder", name=names[i], radius=a, height=heights[i], at=[x, y, z])
        return call("box", name=names[i], size=[2 * a, 2 * b, heights[i]], at=[x - a, y - b, z])

    def told(i: int) -> str:
        a, b = sizes[i]
        if kinds[i] == "cylinder":
            return f"`{names[i]}`, an upright cylinder of diameter {2 * a} mm and height {heights[i]} mm"
        return f"`{names[i]}`, a box {2 * a} mm (x) by {2 * b} mm (y) by {heights[i]} mm (z)"

    places = range(len(kinds))
    calls = tuple(solid(i) for i in places)
    stands = "; ".join(f"`{names[i]}` stands on top of `{names[i - 1]}`, centred on it" for i in places if i)
    return Problem(
        asks=f"Model {len(kinds)} separate solids: {'; '.join(map(told, places))}. {stands}. The whole may be "
        "anywhere.",
        calls=calls,
        wrong=(
            tuple(solid(i, lift=i * 2.0) for i in places),
            tuple(solid(i, x=i * 3) for i in places),
            tuple(solid(i, lift=-sum(heights[:i])) for i in places),
            tuple(solid(i, lift=-3.0 * i) for i in places),
            calls[:-1],
        ),
        equivalent=(tuple(solid(i, x=25, y=-40, lift=7) for i in reversed(places)),),
        relations=tuple(
            each
            for i in places[1:]
            for each in (
                relation("on", names[i], names[i - 1]),
                relation("centred", names[i], names[i - 1], axes="xy"),
            )
        ),
        free=True,
    )


def _row(rng: Random, variant: tuple[str, int]) -> Problem:
    axis, count = variant
    place = "xyz".index(axis)
    gap = rng.randrange(2, 12)
    sizes = [[rng.randrange(10, 40) for _ in range(3)] for _ in range(count)]
    names = ["red", "green", "blue", "white"][:count]

    def calls(apart: float, *, order: int = 1, lift: float = 0) -> Any:
        made, reached = [], 0.0
        for i in range(count)[::order]:
            at = [-half(size) for size in sizes[i]]
            at[2] = 0
            at[place] = reached
            if lift and i:
                at[(place + 1) % 2] += lift
            reached += sizes[i][place] + apart
            made.append(call("box", name=names[i], size=sizes[i], at=at))
        return tuple(made)

    told = "; ".join(f"`{n}` {point(*s)} mm" for n, s in zip(names, sizes, strict=True))
    across = "y" if axis == "x" else "x"
    pairs = list(pairwise(names))
    return Problem(
        asks=f"Model {count} separate boxes with these sizes in (x, y, z): {told}. They stand on one plane (equal "
        "least "
        f"z), in a row along {axis}, in this order towards positive {axis}, each {gap} mm after the one before (from "
        f"face to face), and their middles agree in {across}. The row may be anywhere.",
        calls=calls(gap),
        wrong=(calls(0), calls(2 * gap), calls(gap, order=-1), calls(gap, lift=2), without(calls(gap), -1)),
        equivalent=(tuple(reversed(calls(gap))),),
        relations=tuple(
            each
            for a, b in pairs
            for each in (
                relation("beyond", b, a, axis=axis, distance=gap),
                relation("centred", b, a, axes=across),
                relation("level", b, a),
            )
        ),
        free=True,
    )


FAMILIES = (
    Family(
        id="primitive",
        level=1,
        variants=("box", "centred_box", "cylinder", "lying_cylinder", "sphere", "cone", "frustum", "ring"),
        write=_primitive,
    ),
    Family(id="prism", level=1, variants=(3, 5, 6, 8, 10), write=_prism),
    Family(
        id="plate_holes", level=1, variants=((1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (2, 4), (1, 5)), write=_plate_holes
    ),
    Family(
        id="shaft",
        level=1,
        variants=((2, "x"), (2, "z"), (3, "x"), (3, "y"), (3, "z"), (4, "x"), (4, "z")),
        write=_shaft,
    ),
    Family(
        id="tube",
        level=1,
        variants=(("pipe", "x"), ("pipe", "y"), ("pipe", "z"), ("cup", "z"), ("cup", "x")),
        write=_tube,
    ),
    Family(
        id="stack",
        level=1,
        variants=(
            ("box", "cylinder"),
            ("cylinder", "box"),
            ("box", "box"),
            ("cylinder", "box", "cylinder"),
            ("box", "cylinder", "box"),
            ("cylinder", "cylinder", "box"),
        ),
        write=_stack,
    ),
    Family(id="row", level=1, variants=(("x", 2), ("y", 2), ("x", 3), ("y", 3), ("x", 4), ("y", 4)), write=_row),
)  # fmt: skip
