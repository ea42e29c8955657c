"""Level 3: toothed and spoked wheels, and an enclosure with standoffs."""

from random import Random

from environments.domains._geometry_family import Family, Operations, Problem, edited, half, point, without
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
    across_port = {"plane": "xz", "offset": half(width)} if port == "front" else {"plane": "yz", "offset": half(length)}
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
            (*calls, call("mirror", name="case", **across_port)),
        ),
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
)
