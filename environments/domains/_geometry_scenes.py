"""Level 3, continued: furniture as scenes of named nodes with parents."""

from random import Random
from typing import Any

from environments.domains._geometry_family import Family, Problem, edited, half, point, relation, without
from environments.domains._geometry_tools import call


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
    Family(id="table", level=3, variants=(("square", 4), ("square", 3), ("round", 4), ("round", 3)), write=_table),
    Family(
        id="chair",
        level=3,
        variants=(("+x", "square"), ("-x", "round"), ("+y", "round"), ("-y", "square"), ("+y", "square")),
        write=_chair,
    ),
    Family(id="shelf", level=3, variants=((2, "x"), (3, "x"), (4, "x"), (2, "y"), (3, "y"), (4, "y")), write=_shelf),
)
