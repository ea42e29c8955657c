"""Level 3: toothed and spoked wheels, an enclosure with standoffs, and scenes of nodes with parents."""

from random import Random
from typing import Any

from environments.domains._geometry_family import Family, Operations, Problem, edited, half, point, relation, without
from environments.domains._geometry_tools import call


def _gear(rng: Random, variant: tuple[int, str]) -> Problem:
    num_teeth, centre = variant
    root, tooth, thick = rng.randrange(22, 40), rng.randrange(5, 9), rng.randrange(6, 16)
    bore, wide = rng.randrange(4, 9), rng.choice([3, 4, 5])
    start = root - 3
    shape = (
        call("cylinder", name="hole", radius=bore, height=thick + 2, at=[0, 0, -1])
        if centre == "round"
        else call("box", name="hole", size=[2 * bore, 2 * bore, thick + 2], at=[-bore, -bore, -1])
    )
    calls = (
        call("cylinder", name="gear", radius=root, height=thick),
        call("box", name="tooth", size=[tooth + 3, wide, thick], at=[start, -wide / 2, 0]),
        call("circular_pattern", name="tooth", count=num_teeth),
        call("union", name="gear", of=["gear", "tooth"]),
        shape,
        call("difference", name="gear", minus=["hole"]),
    )
    hole = f"a round bore of diameter {2 * bore} mm" if centre == "round" else f"a square hole of side {2 * bore} mm"
    aligned = "" if centre == "round" else ", its sides parallel to x and y"
    return Problem(
        asks=f"Model a simple gear around the z axis, one solid from z = 0 to z = {thick}: a disc of diameter "
        f"{2 * root} mm "
        f"with {num_teeth} equal rectangular teeth spaced evenly, the first one centred on the +x direction. Each "
        "tooth is "
        f"{wide} mm wide and its flat end lies {root + tooth} mm from the axis. Through the middle goes "
        f"{hole}{aligned}. "
        "Name it `gear`.",
        calls=calls,
        wrong=(
            edited(calls, 2, count=num_teeth - 1),
            (*calls[:3], call("rotate", name="tooth", angles=[0, 0, 180 / num_teeth]), *calls[3:]),
            edited(calls, 1, size=[root + tooth, wide, thick], at=[root, -wide / 2, 0]),
            edited(calls, 1, at=[start, 0, 0]),
            without(calls, 4, 5),
            edited(calls, 1, size=[tooth + 3, wide, thick], at=[start + tooth + 3, -wide / 2, 0]),
        ),
        equivalent=(_teeth_one_by_one(calls, num_teeth),),
    )


def _teeth_one_by_one(calls: Operations, count: int) -> Operations:
    tooth = calls[1]["arguments"]
    made = [call("box", name=f"t{i}", size=tooth["size"], at=tooth["at"]) for i in range(count)]
    turned = [call("rotate", name=f"t{i}", angles=[0, 0, 360 * i / count]) for i in range(count)]
    join = call("union", name="gear", of=["gear", *(f"t{i}" for i in range(count))])
    return (*made, *turned, calls[0], join, *calls[4:])


def _wheel(rng: Random, variant: tuple[int, str]) -> Problem:
    spokes, axis = variant
    hub, rim = rng.randrange(8, 14), rng.randrange(4, 8)
    bore, outer = hub - rng.randrange(3, 5), rng.randrange(45, 80)
    thick, bar = rng.randrange(8, 20), rng.randrange(2, 4)
    reach, place = outer - rim - hub + 4, "xyz".index(axis)
    # The first spoke runs along the next axis: x for z, y for x, z for y.
    along = "xyz"[(place + 1) % 3]

    def raised(height: float) -> list[float]:
        at: list[float] = [0, 0, 0]
        at[place] = height
        return at

    spoke = raised(half(thick))
    spoke["xyz".index(along)] = hub - 2
    calls = (
        call("cylinder", name="wheel", radius=outer, height=thick, axis=axis),
        call("cylinder", name="room", radius=outer - rim, height=thick + 2, axis=axis, at=raised(-1)),
        call("difference", name="wheel", minus=["room"]),
        call("cylinder", name="spoke", radius=bar, height=reach, axis=along, at=spoke),
        call("circular_pattern", name="spoke", count=spokes, axis=axis),
        call("cylinder", name="hub", radius=hub, height=thick, axis=axis),
        call("union", name="wheel", of=["wheel", "hub", "spoke"]),
        call("cylinder", name="bore", radius=bore, height=thick + 2, axis=axis, at=raised(-1)),
        call("difference", name="wheel", minus=["bore"]),
    )
    hub_first = (*calls[5:6], *calls[:5], *calls[6:])
    return Problem(
        asks=f"Model a spoked wheel around the {axis} axis, one solid from {axis} = 0 to {axis} = {thick}: a rim of "
        "outer "
        f"diameter {2 * outer} mm, {rim} mm thick in the radial direction; a hub of diameter {2 * hub} mm with a "
        "through "
        f"bore of diameter {2 * bore} mm; and {spokes} round spokes of diameter {2 * bar} mm from hub to rim, spaced "
        f"evenly, their centre lines at {axis} = {half(thick):g}, the first in the direction of +{along}. Name it "
        "`wheel`.",
        calls=calls,
        wrong=(
            edited(calls, 4, count=spokes + 1),
            edited(calls, 3, radius=2 * bar),
            edited(without(calls, 3, 4), 4, of=["wheel", "hub"]),
            edited(calls, 3, at=[0 if i == place else v for i, v in enumerate(spoke)]),
            calls[:-2],
            (*calls[:5], call("rotate", name="spoke", angles=raised(180 / spokes)), *calls[5:]),
        ),
        equivalent=(hub_first,),
    )


def _enclosure(rng: Random, variant: tuple[int, str]) -> Problem:
    num_posts, port = variant
    length, width, height = rng.randrange(70, 110), rng.randrange(50, 80), rng.randrange(24, 44)
    wall, tall = rng.randrange(2, 4), rng.randrange(6, 12)
    radius, screw, inset = rng.choice([4, 5]), rng.choice([1.5, 2]), 12
    places = [(inset, inset), (length - inset, width - inset), (length - inset, inset), (inset, width - inset)]
    posts = [
        call("cylinder", name=f"p{i}", radius=radius, height=tall, at=[x, y, wall])
        for i, (x, y) in enumerate(places[:num_posts])
    ]
    screws = [
        call("cylinder", name=f"s{i}", radius=screw, height=tall + 1, at=[x, y, wall])
        for i, (x, y) in enumerate(places[:num_posts])
    ]
    window = [16, wall + 2, 8] if port == "front" else [wall + 2, 16, 8]
    corner = [half(length) - 8, -1, wall + tall] if port == "front" else [-1, half(width) - 8, wall + tall]
    calls = (
        call("box", name="case", size=[length, width, height]),
        call("box", name="room", size=[length - 2 * wall, width - 2 * wall, height], at=[wall, wall, wall]),
        call("difference", name="case", minus=["room"]),
        *posts,
        call("union", name="case", of=["case", *(f"p{i}" for i in range(num_posts))]),
        *screws,
        call("box", name="port", size=window, at=corner),
        call("difference", name="case", minus=["port", *(f"s{i}" for i in range(num_posts))]),
    )
    side, across = ("y = 0", "x") if port == "front" else ("x = 0", "y")
    told = ", ".join(point(*place) for place in places[:num_posts])
    first = 4 + num_posts
    deeper = [
        edited(calls, first + i, at=[*places[i], -1], height=tall + wall + 2)[first + i] for i in range(num_posts)
    ]
    opposite = [corner[0], width - wall - 1, corner[2]] if port == "front" else [length - wall - 1, *corner[1:]]
    return Problem(
        asks=f"Model an open enclosure, one solid: outside {length} mm (x) by {width} mm (y) by {height} mm (z), a "
        "corner "
        f"at the origin and the rest at positive coordinates, walls and floor {wall} mm thick, open at the top. On its "
        f"floor stand {num_posts} round standoffs of diameter {2 * radius} mm, {tall} mm high, centred at {told} in "
        "(x, y); "
        f"each has a blind hole of diameter {2 * screw:g} mm from its top down to the level of the floor's upper face. "
        f"Through the wall at {side} goes a rectangular port 16 mm wide, centred in {across}, from z = {wall + tall} "
        "to "
        f"z = {wall + tall + 8}. Name it `case`.",
        calls=calls,
        wrong=(
            (*calls[:first], *deeper, *calls[first + num_posts :]),
            edited(calls, -2, at=opposite),
            edited(calls, 1, at=[wall, wall, -1], size=[length - 2 * wall, width - 2 * wall, height + 2]),
            edited(without(calls, *range(first, first + num_posts)), -1, minus=["port"]),
            tuple({**c, "arguments": {**c["arguments"], "radius": 2 * screw}} if i in range(first, first + num_posts)
                  else c for i, c in enumerate(calls)),
            (*calls, call("mirror", name="case", plane="xz", offset=half(width))),
        ),
    )  # fmt: skip


def _table(rng: Random, variant: tuple[str, int]) -> Problem:
    leg_kind, num_legs = variant
    length, width, thick = rng.randrange(800, 1600, 10), rng.randrange(500, 900, 10), rng.randrange(20, 45)
    height, leg, inset = rng.randrange(600, 800, 10), rng.randrange(40, 70, 2), rng.randrange(20, 80, 5)
    x, y = rng.randrange(-500, 500, 10), rng.randrange(-500, 500, 10)
    right, back = length - inset - leg, width - inset - leg
    corners: list[tuple[float, float]] = [(inset, inset), (right, inset), (right, back), (inset, back)]
    spots = corners if num_legs == 4 else [*corners[:2], (half(length - leg), back)]
    tall = height - thick
    turned = (
        call("box", name="leg", size=[leg, leg, tall])
        if leg_kind == "square"
        else call("cylinder", name="leg", radius=half(leg), height=tall, at=[half(leg), half(leg), 0])
    )
    parts = (call("box", name="top", size=[length, width, thick]), turned)
    nodes = (
        call("place", node="table", at=[x, y, 0]),
        call("place", node="top", part="top", parent="table", at=[0, 0, tall]),
        *(call("place", node=f"leg_{i}", part="leg", parent="table", at=[*spot, 0]) for i, spot in enumerate(spots, 1)),
    )
    loose = tuple(
        call("place", node=n["arguments"]["node"], part=n["arguments"]["part"],
             at=[a + b for a, b in zip(n["arguments"]["at"], (x, y, 0), strict=True)])
        for n in nodes[1:]
    )  # fmt: skip
    shape = f"square, {leg} x {leg} mm" if leg_kind == "square" else f"round, {leg} mm in diameter"
    told = "; ".join(f"`leg_{i}` around {point(a + half(leg), b + half(leg))}" for i, (a, b) in enumerate(spots, 1))
    calls = (*parts, *nodes)
    return Problem(
        asks=f"Build a scene of a table. Its root node `table` is an empty group at {point(x, y, 0)}, and every other "
        "node "
        f"is its child. `top`: a board {length} mm (x) by {width} mm (y), {thick} mm thick, whose upper face is at "
        f"z = {height}; its corner of least x and y is at the group's origin. {num_legs} legs, {shape}, reach from z "
        "= 0 "
        f"to the board's lower face; in the group's (x, y) their middles are: {told}. Each part is a node of its own.",
        calls=calls,
        wrong=(
            (*parts, *loose),
            (*calls[:2], call("place", node="table"), *calls[3:]),
            edited(calls, 3, at=[0, 0, height]),
            calls[:-1],
            edited(calls, 1, **({"size": [leg, leg, height]} if leg_kind == "square" else {"height": height})),
            edited(calls, -1, parent=f"leg_{num_legs - 1}"),
        ),
        equivalent=((*reversed(parts), nodes[0], *reversed(nodes[1:])),),
        relations=tuple(relation("parent", n["arguments"]["node"], "table") for n in nodes[1:])
        + tuple(relation("touching", "top", f"leg_{i}") for i in range(1, num_legs + 1)),
    )


def _chair(rng: Random, variant: tuple[str, str]) -> Problem:
    facing, kind = variant
    seat, thick, leg = rng.randrange(380, 480, 10), rng.randrange(18, 36, 2), rng.randrange(30, 50, 2)
    height, back, deep = rng.randrange(400, 480, 10), rng.randrange(350, 520, 10), rng.randrange(18, 36, 2)
    tall = height - thick
    far = seat - leg
    edge = {"+x": [0, 0], "-x": [seat - deep, 0], "+y": [0, 0], "-y": [0, seat - deep]}[facing]
    opposite = {"+x": [seat - deep, 0], "-x": [0, 0], "+y": [0, seat - deep], "-y": [0, 0]}[facing]
    board = [deep, seat, back] if facing.endswith("x") else [seat, deep, back]
    legs = [(0, 0), (far, 0), (far, far), (0, far)]
    foot = (
        call("box", name="leg", size=[leg, leg, tall])
        if kind == "square"
        else call("cylinder", name="leg", radius=half(leg), height=tall, at=[half(leg), half(leg), 0])
    )
    parts = (
        call("box", name="seat", size=[seat, seat, thick]),
        call("box", name="back", size=board),
        foot,
    )
    nodes = (
        call("place", node="seat", part="seat", at=[0, 0, tall]),
        call("place", node="back", part="back", parent="seat", at=[*edge, thick]),
        *(
            call("place", node=f"leg_{i}", part="leg", parent="seat", at=[*spot, -tall])
            for i, spot in enumerate(legs, 1)
        ),
    )
    calls = (*parts, *nodes)
    shape = f"square legs of {leg} x {leg} mm" if kind == "square" else f"round legs of {leg} mm in diameter"
    edges = {"+x": "x = 0", "-x": f"x = {seat}", "+y": "y = 0", "-y": f"y = {seat}"}
    told = "; ".join(f"`leg_{i}` around {point(a + half(leg), b + half(leg))}" for i, (a, b) in enumerate(legs, 1))
    return Problem(
        asks=f"Build a scene of a chair. `seat` is the root node: a board {seat} x {seat} mm, {thick} mm thick, its "
        "corner "
        f"of least x and y at the world's x = 0, y = 0, its upper face at z = {height}. All other nodes are its "
        "children. "
        f"`back`: a board {deep} mm thick and {back} mm high over the seat's whole width, standing on the seat's upper "
        f"face along the edge at {edges[facing]} and not reaching beyond the seat. Four {shape} reach from z = 0 to "
        "the "
        f"seat's lower face; their middles in (x, y) are: {told}.",
        calls=calls,
        wrong=(
            edited(calls, 4, at=[*opposite, thick]),
            tuple(edited(calls, i, at=[*legs[i - 5], 0])[i] if i >= 5 else c for i, c in enumerate(calls)),
            edited(calls, 4, at=[*edge, 0]),
            calls[:-1],
            edited(calls, 3, at=[0, 0, height]),
            (*calls[:4], _apart(calls[4], [*edge, height]), *calls[5:]),
        ),
        equivalent=((*parts, nodes[0], *reversed(nodes[1:])),),
        relations=(
            *(relation("parent", n["arguments"]["node"], "seat") for n in nodes[1:]),
            relation("on", "back", "seat"),
        ),
    )


def _apart(placed: Any, at: list[float]) -> Any:
    """The same node in the same place of the world, at the root."""
    kept = {name: value for name, value in placed["arguments"].items() if name != "parent"}
    return {**placed, "arguments": {**kept, "at": at}}


def _shelf(rng: Random, variant: tuple[int, str]) -> Problem:
    num_boards, axis = variant
    wide, deep, thick = rng.randrange(500, 900, 10), rng.randrange(200, 360, 10), rng.randrange(16, 26)
    first, pitch = rng.randrange(40, 120, 10), rng.randrange(220, 340, 10)
    height = first + (num_boards - 1) * pitch + rng.randrange(60, 200, 10) + thick

    def sized(a: float, b: float, c: float) -> list[float]:
        return [a, b, c] if axis == "x" else [b, a, c]

    inside = wide - 2 * thick
    parts = (
        call("box", name="side", size=sized(thick, deep, height)),
        call("box", name="board", size=sized(inside, deep, thick)),
    )
    nodes = (
        call("place", node="shelf"),
        call("place", node="side_1", part="side", parent="shelf"),
        call("place", node="side_2", part="side", parent="shelf", at=sized(wide - thick, 0, 0)),
        *(
            call("place", node=f"board_{i + 1}", part="board", parent="shelf", at=sized(thick, 0, first + i * pitch))
            for i in range(num_boards)
        ),
    )
    calls = (*parts, *nodes)
    across = "y" if axis == "x" else "x"
    boards = ", ".join(f"`board_{i + 1}`" for i in range(num_boards))
    return Problem(
        asks=f"Build a scene of a shelf. Node `shelf` is an empty group at the origin and the parent of all others, "
        "which "
        f"are {thick} mm thick boards at positive coordinates, {deep} mm deep in {across} (from {across} = 0). Two "
        "upright "
        f"boards, {height} mm high from z = 0, are the ends of the shelf, which is {wide} mm wide in {axis}: `side_1` "
        "at "
        f"{axis} = 0 and `side_2` at the other end. Between them, touching both, lie {num_boards} boards {boards} from "
        f"bottom to top; the lower face of the first is at z = {first}, each further one is {pitch} mm higher.",
        calls=calls,
        wrong=(
            edited(calls, 1, size=sized(wide, deep, thick)),
            edited(calls, 4, at=sized(wide, 0, 0)),
            edited(calls, -1, at=sized(thick, 0, first + num_boards * pitch - thick)),
            without(calls, -1),
            (*calls[:5], *(_apart(c, c["arguments"]["at"]) for c in calls[5:])),
            (*calls[:5], *(edited(calls, 5 + i, at=sized(thick, 0, first + i * (pitch + thick)))[5 + i]
                           for i in range(num_boards))),
        ),
        equivalent=((*parts, nodes[0], *reversed(nodes[1:])),),
        relations=tuple(relation("parent", n["arguments"]["node"], "shelf") for n in nodes[1:])
        + tuple(relation("touching", f"board_{i + 1}", f"side_{j}") for i in range(num_boards) for j in (1, 2)),
    )  # fmt: skip


FAMILIES = (
    Family(
        id="gear",
        level=3,
        variants=(
            (8, "round"),
            (10, "round"),
            (12, "round"),
            (16, "round"),
            (8, "square"),
            (12, "square"),
            (9, "round"),
        ),
        write=_gear,
    ),
    Family(
        id="wheel",
        level=3,
        variants=((3, "z"), (4, "z"), (5, "z"), (6, "z"), (3, "x"), (4, "x"), (5, "y"), (6, "y")),
        write=_wheel,
    ),
    Family(
        id="enclosure",
        level=3,
        variants=((2, "front"), (3, "front"), (4, "front"), (2, "left"), (3, "left"), (4, "left")),
        write=_enclosure,
    ),
    Family(id="table", level=3, variants=(("square", 4), ("square", 3), ("round", 4), ("round", 3)), write=_table),
    Family(
        id="chair",
        level=3,
        variants=(("+x", "square"), ("-x", "round"), ("+y", "round"), ("-y", "square"), ("+y", "square")),
        write=_chair,
    ),
    Family(id="shelf", level=3, variants=((2, "x"), (3, "x"), (4, "x"), (2, "y"), (3, "y"), (4, "y")), write=_shelf),
)
