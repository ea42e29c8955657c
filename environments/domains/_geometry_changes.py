"""Level 2, continued: dimensions in inches, and one change to a part that is given."""

from random import Random
from typing import Any

from environments.domains._geometry_family import Family, Problem, edited, half
from environments.domains._geometry_tools import call

_INCH = 25.4


def _inches(rng: Random, variant: str) -> Problem:
    def mm(inches: float) -> float:
        return round(inches * _INCH, 4)

    length, width = rng.randrange(16, 41) / 8, rng.randrange(12, 25) / 8
    thick, bore = rng.choice([0.25, 0.3125, 0.375, 0.4375, 0.5]), rng.choice([0.25, 0.375, 0.5, 0.625, 0.75])
    if variant in ("bushing", "washer"):
        outer = bore + rng.randrange(5, 24) / 16
        tall = thick if variant == "washer" else length
        x, y = rng.randrange(-8, 9) / 4, rng.randrange(-8, 9) / 4
        made = [call("cylinder", name="part", radius=mm(outer / 2), height=mm(tall), at=[mm(x), mm(y), 0])]
        hole = call("cylinder", name="hole", radius=mm(bore / 2), height=mm(tall) + 2, at=[mm(x), mm(y), -1])
        told = (
            f"a round {variant} that stands on z = 0, its axis parallel to z through x = {x:g} in, y = {y:g} in: outer "
        )
        told += (
            f"diameter {outer:g} in, height {tall:g} in, with a bore of diameter {bore:g} in through its whole height"
        )
    else:
        tall = thick if variant == "plate" else width
        at = [mm(length / 2), mm(width / 2), -1]
        made = [call("box", name="part", size=[mm(length), mm(width), mm(tall)])]
        hole = call("cylinder", name="hole", radius=mm(bore / 2), height=mm(tall) + 2, at=at)
        told = f"a {variant} {length:g} in (x) by {width:g} in (y) by {tall:g} in (z), a corner at the origin and the "
        told += f"rest at positive coordinates, with a through-hole of diameter {bore:g} in along z in its middle"
    calls = (*made, hole, call("difference", name="part", minus=["hole"]))
    factor = [1 / _INCH] * 3
    return Problem(
        asks=f"The dimensions are in inches (1 in = 25.4 mm); the modelling API takes millimetres. Model {told}. Name "
        "it "
        "`part`.",
        calls=calls,
        wrong=(
            (*calls, call("scale", name="part", factors=factor)),
            (*calls, call("scale", name="part", factors=[25 / _INCH] * 3)),
            edited(calls, 1, radius=mm(bore)),
            edited(calls, 1, height=mm(tall) / 2 + 1),
            calls[:1],
        ),
        equivalent=(
            (
                *(_in_inches(c) for c in calls),
                call("scale", name="part", factors=[_INCH] * 3),
            ),
        ),
    )


def _in_inches(operation: Any) -> Any:
    def smaller(value: Any) -> Any:
        return [smaller(v) for v in value] if isinstance(value, list) else value / _INCH

    lengths = {k: smaller(v) for k, v in operation["arguments"].items() if k in ("size", "radius", "height", "at")}
    return {**operation, "arguments": {**operation["arguments"], **lengths}}


def _change(rng: Random, kind: str) -> Problem:
    length, width, thick = rng.randrange(60, 100), rng.randrange(40, 60), rng.randrange(6, 14)
    radius, rim = rng.randrange(3, 6), rng.randrange(10, 14)
    more = rng.randrange(3, 9)
    x, y, middle = length - rim, half(width), half(length)
    given = (
        call("box", name="plate", size=[length, width, thick]),
        call("cylinder", name="hole", radius=radius, height=thick + 2, at=[rim, half(width), -1]),
        call("difference", name="plate", minus=["hole"]),
    )
    told, calls, wrong = _CHANGES[kind](length, width, thick, radius, rim, more, x, y, middle)
    return Problem(
        asks=f"The model already holds one solid, `plate`: {length} x {width} x {thick} mm (x, y, z) with a corner at "
        "the "
        f"origin and the rest at positive coordinates, with one through-hole of diameter {2 * radius} mm along z "
        "centred "
        f"at x = {rim}, y = {half(width):g}. Change this and nothing else: {told}. The result is still one solid named "
        "`plate`.",
        calls=calls,
        wrong=(*wrong, (*calls, call("move", name="plate", by=[0, 0, more]))),
        equivalent=_rebuilt(given, calls),
        given=given,
    )


def _rebuilt(given: tuple[Any, ...], calls: tuple[Any, ...]) -> tuple[Any, ...]:
    """The change on a part moved aside and back, and the part built anew."""
    aside, back = call("move", name="plate", by=[0, 0, 500]), call("move", name="plate", by=[0, 0, -500])
    return ((aside, back, *calls), (call("delete", name="plate"), *given, *calls), (*calls, aside, back))


def _add_hole(length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, middle: float) -> Any:
    drill = call("cylinder", name="new", radius=r, height=thick + 2, at=[x, y, -1])
    calls = (drill, call("difference", name="plate", minus=["new"]))
    told = f"drill a second through-hole of the same diameter along z, centred at x = {x}, y = {y:g}"
    wrong = (edited(calls, 0, radius=2 * r), edited(calls, 0, height=half(thick)), edited(calls, 0, at=[middle, y, -1]))
    return told, calls, (*wrong, (drill, call("union", name="plate", of=["plate", "new"])), (drill,))


def _widen_hole(length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, m: float) -> Any:
    wide = r + 2
    drill = call("cylinder", name="new", radius=wide, height=thick + 2, at=[rim, y, -1])
    calls = (drill, call("difference", name="plate", minus=["new"]))
    wrong = (edited(calls, 0, radius=2 * wide), edited(calls, 0, height=half(thick)), edited(calls, 0, at=[x, y, -1]))
    return f"widen the hole to a diameter of {2 * wide} mm", calls, (*wrong, (drill,))


def _fill_hole(length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, m: float) -> Any:
    plug = call("cylinder", name="new", radius=r + 1, height=thick, at=[rim, y, 0])
    calls = (plug, call("union", name="plate", of=["plate", "new"]))
    wrong = (edited(calls, 0, height=thick + more), edited(calls, 0, height=half(thick)), (plug,))
    return "close the hole, flush with both faces", calls, (*wrong, edited(calls, 0, radius=half(r)))


def _add_boss(length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, middle: float) -> Any:
    post = call("cylinder", name="new", radius=r + 2, height=more, at=[x, y, thick])
    calls = (post, call("union", name="plate", of=["plate", "new"]))
    told = f"add a round boss of diameter {2 * (r + 2)} mm and height {more} mm on the top face, centred at x = {x}, "
    wrong = (
        edited(calls, 0, radius=2 * (r + 2)),
        edited(calls, 0, at=[x, y, -more]),
        edited(calls, 0, height=2 * more),
    )
    return f"{told}y = {y:g}", calls, (*wrong, (post,), edited(calls, 0, at=[x, y, thick + 2]))


def _lengthen(length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, middle: float) -> Any:
    piece = call("box", name="new", size=[2 * more, width, thick], at=[length, 0, 0])
    calls = (piece, call("union", name="plate", of=["plate", "new"]))
    told = f"make it {2 * more} mm longer at its end of greatest x"
    stretched = call("scale", name="plate", factors=[(length + 2 * more) / length, 1, 1])
    wrong = (edited(calls, 0, size=[more, width, thick]), edited(calls, 0, at=[-2 * more, 0, 0]), (stretched,))
    return told, calls, (*wrong, (piece,))


def _cut_notch(
    length: int, width: int, thick: int, r: int, rim: int, more: int, x: int, y: float, middle: float
) -> Any:
    tool = call("box", name="new", size=[2 * more + 1, 2 * more, thick + 2], at=[length - 2 * more, 0, -1])
    calls = (tool, call("difference", name="plate", minus=["new"]))
    told = f"cut away the corner at greatest x and least y, through the whole thickness, {2 * more} mm along both edges"
    wrong = (
        edited(calls, 0, at=[-1, 0, -1]),
        edited(calls, 0, at=[length - 2 * more, width - 2 * more, -1]),
        edited(calls, 0, size=[2 * more + 1, 2 * more, half(thick)]),
        edited(calls, 0, at=[length - more, 0, -1]),
    )
    return told, calls, wrong


_CHANGES: dict[str, Any] = {
    "add_hole": _add_hole,
    "widen_hole": _widen_hole,
    "fill_hole": _fill_hole,
    "add_boss": _add_boss,
    "lengthen": _lengthen,
    "cut_notch": _cut_notch,
}

FAMILIES = (
    Family(id="inches", level=2, variants=("plate", "block", "bushing", "washer"), write=_inches),
    Family(id="change", level=2, variants=tuple(_CHANGES), write=_change),
)
