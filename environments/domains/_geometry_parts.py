"""Level 2: brackets, flanges, plates with pockets and slots, boxes with lids, mirrored parts."""

from random import Random
from typing import Any

from environments.domains._geometry_family import Family, Problem, edited, half, point, relation, without
from environments.domains._geometry_tools import call


def _bracket(rng: Random, variant: tuple[int, int]) -> Problem:
    in_foot, in_wall = variant
    thick, radius, width = rng.randrange(4, 9), rng.randrange(2, 5), rng.randrange(24, 60, 2)
    foot, wall = rng.randrange(50, 90), rng.randrange(45, 85)
    middle = half(width)

    def spread(count: int, reach: int) -> list[float]:
        return [round(thick + (reach - thick) * (i + 1) / (count + 1), 2) for i in range(count)]

    calls = [
        call("box", name="bracket", size=[foot, width, thick]),
        call("box", name="wall", size=[thick, width, wall]),
        call("union", name="bracket", of=["bracket", "wall"]),
    ]
    for i, x in enumerate(spread(in_foot, foot)):
        calls.append(call("cylinder", name=f"f{i}", radius=radius, height=thick + 2, at=[x, middle, -1]))
    for i, z in enumerate(spread(in_wall, wall)):
        calls.append(call("cylinder", name=f"w{i}", radius=radius, height=thick + 2, at=[-1, middle, z], axis="x"))
    drills = [c["arguments"]["name"] for c in calls[3:]]
    calls.append(call("difference", name="bracket", minus=drills))
    told_foot = " and ".join(f"x = {x:g}" for x in spread(in_foot, foot))
    told_wall = " and ".join(f"z = {z:g}" for z in spread(in_wall, wall))
    return Problem(
        asks=f"Model an L-shaped bracket, one solid, from sheet {thick} mm thick and {width} mm wide (y = 0 to "
        f"{width}). "
        f"The foot lies on z = 0 and reaches from x = 0 to x = {foot}; the wall stands at x = 0 to x = {thick} and "
        f"reaches from z = 0 to z = {wall}. Through-holes of diameter {2 * radius} mm, all centred at y = {middle:g}: "
        f"in the foot, along z, at {told_foot}; in the wall, along x, at {told_wall}. Name it `bracket`.",
        calls=tuple(calls),
        wrong=(
            tuple({**c, "arguments": {**c["arguments"], "radius": 2 * radius}} if c["name"] == "cylinder" else c
                  for c in calls),
            edited(calls, 1, at=[foot - thick, 0, 0]),
            edited(edited(calls, 0, size=[wall, width, thick]), 1, size=[thick, width, foot]),
            (*calls, call("mirror", name="bracket", plane="yz", offset=half(foot))),
            edited(calls, 3, height=half(thick) + 1),
            tuple(calls[:3]),
        ),
        equivalent=(
            (
                call("extrude", name="bracket", height=width, axis="y",
                     points=[[0, 0], [0, foot], [thick, foot], [thick, thick], [wall, thick], [wall, 0]]),
                *calls[3:],
            ),
        ),
    )  # fmt: skip


def _flange(rng: Random, variant: tuple[int, bool]) -> Problem:
    num_bolts, hub = variant
    bore, bolt = rng.randrange(8, 18), rng.randrange(3, 6)
    collar = bore + rng.randrange(4, 8)
    ring = collar + bolt + rng.randrange(6, 14)
    outer, thick, rise = ring + bolt + rng.randrange(5, 11), rng.randrange(6, 15), rng.randrange(10, 30)
    top = thick + (rise if hub else 0)
    disc = [call("cylinder", name="flange", radius=outer, height=thick)]
    if hub:
        disc += [
            call("cylinder", name="hub", radius=collar, height=top),
            call("union", name="flange", of=["flange", "hub"]),
        ]
    holes = [
        call("cylinder", name="bolt", radius=bolt, height=thick + 2, at=[ring, 0, -1]),
        call("circular_pattern", name="bolt", count=num_bolts),
        call("cylinder", name="bore", radius=bore, height=top + 2, at=[0, 0, -1]),
        call("difference", name="flange", minus=["bolt", "bore"]),
    ]
    calls = (*disc, *holes)
    neck = (
        f" A round hub of diameter {2 * collar} mm stands on it, coaxial, up to z = {top}; the bore goes through both."
        if hub
        else ""
    )
    return Problem(
        asks=f"Model a round flange around the z axis, one solid: a disc of diameter {2 * outer} mm from z = 0 to "
        f"z = {thick}, with a central bore of diameter {2 * bore} mm.{neck} {num_bolts} through-holes of diameter "
        f"{2 * bolt} mm are spaced evenly on a bolt circle of diameter {2 * ring} mm, the first on the +x side. Name "
        "it "
        "`flange`.",
        calls=calls,
        wrong=(
            edited(calls, -4, at=[2 * ring, 0, -1]),
            edited(calls, -4, radius=2 * bolt),
            edited(calls, -3, count=num_bolts + 1),
            edited(calls, -4, height=half(thick) + 1),
            (*calls[:-3], call("rotate", name="bolt", angles=[0, 0, 180 / num_bolts]), *calls[-3:]),
            edited(without(calls, -2), -1, minus=["bolt"]),
        ),
        equivalent=((*disc, *_bolts_one_by_one(num_bolts, ring, bolt, thick), *holes[2:3], call(
            "difference", name="flange", minus=[*(f"b{i}" for i in range(num_bolts)), "bore"])),),
    )  # fmt: skip


def _bolts_one_by_one(count: int, ring: int, radius: int, thick: int) -> list[Any]:
    made = []
    for i in range(count):
        made.append(call("cylinder", name=f"b{i}", radius=radius, height=thick, at=[ring, 0, 0]))
        made.append(call("rotate", name=f"b{i}", angles=[0, 0, 360 * i / count]))
    return made


def _box_lid(rng: Random, variant: tuple[str, bool]) -> Problem:
    kind, with_lip = variant
    length, width, height = rng.randrange(50, 100), rng.randrange(36, 80), rng.randrange(25, 60)
    wall, clearance, thick, lip = rng.randrange(2, 5), rng.choice([0.2, 0.3, 0.4, 0.5]), rng.randrange(3, 6), 6
    if kind == "square":
        width = length
    inside = [length - 2 * wall, width - 2 * wall]
    body = [
        call("box", name="body", size=[length, width, height]),
        call("box", name="room", size=[*inside, height], at=[wall, wall, wall]),
        call("difference", name="body", minus=["room"]),
    ]

    def lid(play: float, lift: float = 0) -> list[Any]:
        size = [inside[0] - 2 * play, inside[1] - 2 * play]
        at = [wall + play, wall + play]
        if not with_lip:
            return [call("box", name="lid", size=[*size, thick], at=[*at, height - thick + lift])]
        return [
            call("box", name="lid", size=[length, width, thick], at=[0, 0, height + lift]),
            call("box", name="lip", size=[*size, lip], at=[*at, height - lip + lift]),
            call("union", name="lid", of=["lid", "lip"]),
        ]

    plug = f"{clearance:g} mm of clearance to each of the four walls"
    told = (
        f"a plate of the body's outside ({length} x {width} mm), {thick} mm thick, lying on the body's rim, with a "
        f"solid rectangular lip below it that reaches {lip} mm down into the body and leaves {plug}"
        if with_lip
        else f"a plate {thick} mm thick, lying inside the body's opening, its top flush with the rim, and leaves {plug}"
    )
    return Problem(
        asks=f"Model two separate solids in their assembled position. `body`: an open box, outside {length} mm (x) by "
        f"{width} mm (y) by {height} mm (z) with a corner at the origin and the rest at positive coordinates, walls "
        "and "
        f"floor {wall} mm thick, open at the top. `lid`: {told}.",
        calls=(*body, *lid(clearance)),
        wrong=(
            (*body, *lid(0)),
            (*body, *lid(2 * clearance)),
            (*body, *lid(clearance, 5)),
            (body[0], *lid(clearance)),
            (*edited(body, 1, size=[*inside, height], at=[wall, wall, 0]), *lid(clearance)),
            tuple(body),
        ),
        equivalent=((*lid(clearance), *body),),
        relations=(
            relation("centred", "lid", "body", axes="xy"),
            relation("touching", "lid", "body") if with_lip else relation("gap", "lid", "body", distance=clearance),
        ),
    )


def _pocket_boss(rng: Random, side: str) -> Problem:
    length, width, thick = rng.randrange(95, 130), rng.randrange(50, 80), rng.randrange(12, 22)
    pocket = [rng.randrange(20, 32), rng.randrange(16, 30), rng.randrange(4, 9)]
    radius, rise = rng.randrange(7, 12), rng.randrange(6, 20)
    left, front = rng.randrange(6, 10), rng.randrange(6, 12)
    far = length - left - radius - rng.randrange(3, 7)
    sunk, raised = ([left, front], [far, half(width)]) if side == "left" else (
        [length - left - pocket[0], front], [length - far, half(width)]
    )  # fmt: skip
    calls = (
        call("box", name="plate", size=[length, width, thick]),
        call("box", name="pocket", size=[pocket[0], pocket[1], pocket[2] + 1], at=[*sunk, thick - pocket[2]]),
        call("difference", name="plate", minus=["pocket"]),
        call("cylinder", name="boss", radius=radius, height=rise, at=[*raised, thick]),
        call("union", name="plate", of=["plate", "boss"]),
    )
    return Problem(
        asks=f"Model one solid: a plate {length} x {width} x {thick} mm (x, y, z) with a corner at the origin and the "
        "rest "
        f"at positive coordinates. In its top face is a rectangular pocket {pocket[0]} mm (x) by {pocket[1]} mm (y), "
        f"{pocket[2]} mm deep, whose corner of least x and y is at x = {sunk[0]}, y = {sunk[1]}. On its top face "
        "stands "
        f"a round boss of diameter {2 * radius} mm and height {rise} mm, centred at x = {raised[0]}, y = "
        f"{raised[1]:g}. "
        "Name it `plate`.",
        calls=calls,
        wrong=(
            edited(calls, 1, size=[pocket[0], pocket[1], thick + 2], at=[*sunk, -1]),
            edited(calls, 3, radius=2 * radius),
            (*calls, call("mirror", name="plate", plane="yz", offset=half(length))),
            edited(calls, 3, at=[*raised, thick + 1]),
            edited(calls, 1, at=[*sunk, thick]),
            without(calls, 1, 2),
            without(calls, 3, 4),
        ),
        equivalent=(
            (calls[0], edited(calls, 3, at=[*raised, 0], height=thick + rise)[3], calls[4], *calls[1:3]),
        ),
    )  # fmt: skip


def _slots(rng: Random, variant: tuple[int, str]) -> Problem:
    count, along = variant
    radius, run, pitch = rng.randrange(3, 6), rng.randrange(14, 30), rng.randrange(16, 24)
    edge, thick = rng.randrange(10, 16), rng.randrange(4, 10)
    across = (count - 1) * pitch + 2 * edge
    length = run + 2 * edge
    size = [across, length, thick] if along == "y" else [length, across, thick]
    step, shift = ([pitch, 0, 0], [0, run, 0]) if along == "y" else ([0, pitch, 0], [run, 0, 0])
    slot = [2 * radius, run, thick + 2] if along == "y" else [run, 2 * radius, thick + 2]
    corner = [edge - radius, edge, -1] if along == "y" else [edge, edge - radius, -1]
    calls = (
        call("box", name="plate", size=size),
        call("box", name="slot", size=slot, at=corner),
        call("cylinder", name="near", radius=radius, height=thick + 2, at=[edge, edge, -1]),
        call("cylinder", name="far", radius=radius, height=thick + 2, at=[edge + shift[0], edge + shift[1], -1]),
        call("union", name="slot", of=["slot", "near", "far"]),
        call("linear_pattern", name="slot", step=step, count=count),
        call("difference", name="plate", minus=["slot"]),
    )
    return Problem(
        asks=f"Model a plate {size[0]} x {size[1]} x {thick} mm (x, y, z) with a corner at the origin and the rest at "
        f"positive coordinates, and cut {count} equal slots with round ends through it along z. Each slot is "
        f"{2 * radius} mm wide and runs along {along}; the centres of its two round ends are {run} mm apart. The first "
        f"slot has the centre of its end of least {along} at {point(edge, edge)} in (x, y); each further slot is "
        f"{pitch} mm further towards positive {'x' if along == 'y' else 'y'}. Name it `plate`.",
        calls=calls,
        wrong=(
            edited(without(calls, 2, 3), 2, of=["slot"]),
            edited(calls, 5, count=count - 1) if count > 2 else without(calls, 5),
            tuple(edited(calls, i, height=half(thick) + 1)[i] if i in (2, 3) else
                  edited(calls, i, size=[*slot[:2], half(thick) + 1])[i] if i == 1 else c for i, c in enumerate(calls)),
            edited(edited(calls, 2, radius=2 * radius), 3, radius=2 * radius),
            calls[:1],
            (*calls, call("rotate", name="plate", angles=[0, 0, 90])),
        ),
    )  # fmt: skip


def _mirrored(rng: Random, variant: tuple[str, str]) -> Problem:
    axis, shape = variant
    plane = {"x": "yz", "y": "xz"}[axis]
    long, short, width = rng.randrange(40, 70), rng.randrange(10, 18), rng.randrange(24, 44)
    height, away, tall = rng.randrange(8, 20), rng.randrange(5, 20), rng.randrange(25, 45)
    u, v = (0, 1) if axis == "x" else (1, 0)

    def placed(along: float, across: float) -> list[float]:
        at = [0.0, 0.0]
        at[u], at[v] = along, across
        return at

    post = [short, short, tall] if shape == "post" else [short, half(width), height + 6]
    size = placed(long, width)
    block = placed(post[0], post[1])
    calls = (
        call("box", name="right", size=[*size, height], at=[*placed(away, 0), 0]),
        call("box", name="post", size=[*block, post[2]], at=[*placed(away, 0), 0]),
        call("union", name="right", of=["right", "post"]),
        call("copy", name="right", new_name="left"),
        call("mirror", name="left", plane=plane),
    )
    ends = {"x": "y", "y": "x"}[axis]
    return Problem(
        asks=f"Model two separate solids that mirror each other at the plane {axis} = 0. `right` is a block from "
        f"{axis} = {away} to {axis} = {away + long}, {ends} = 0 to {width} and z = 0 to {height}, joined with a second "
        f"block from {axis} = {away} to {axis} = {away + short}, {ends} = 0 to {post[1]:g} and z = 0 to {post[2]}. "
        "`left` is its mirror image.",
        calls=calls,
        wrong=(
            edited(calls, 4, plane={"yz": "xz", "xz": "yz"}[plane]),
            (*calls[:4], call("rotate", name="left", angles=[0, 0, 180])),
            (*calls[:4], call("move", name="left", by=[*placed(-(long + 2 * away), 0), 0])),
            (*calls[:2], *calls[3:]),
            calls[:3],
            (*calls[:3], call("mirror", name="right", plane=plane, keep=True)),
        ),
        equivalent=(
            (
                *calls[:3],
                call("box", name="left", size=[*size, height], at=[*placed(-away - long, 0), 0]),
                call("box", name="post", size=[*block, post[2]], at=[*placed(-away - short, 0), 0]),
                call("union", name="left", of=["post", "left"]),
            ),
        ),
    )


FAMILIES = (
    Family(id="bracket", level=2, variants=((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)), write=_bracket),
    Family(
        id="flange",
        level=2,
        variants=((4, False), (5, False), (6, False), (8, False), (4, True), (6, True), (3, True)),
        write=_flange,
    ),
    Family(
        id="box_lid",
        level=2,
        variants=(("long", True), ("long", False), ("square", True), ("square", False)),
        write=_box_lid,
    ),
    Family(id="pocket_boss", level=2, variants=("left", "right"), write=_pocket_boss),
    Family(
        id="slots",
        level=2,
        variants=((2, "x"), (2, "y"), (3, "x"), (3, "y"), (4, "x"), (4, "y")),
        write=_slots,
    ),
    Family(
        id="mirrored", level=2, variants=(("x", "post"), ("y", "post"), ("x", "ledge"), ("y", "ledge")), write=_mirrored
    ),
)
