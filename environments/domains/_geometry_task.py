"""From (split, index, seed) to a problem, and from a reference to the scripts whose standing is known.

An instance belongs to a split twice over: its variant by the template's name, its reference by its own hash, so that
no answer is shared even where two templates could draw the same solid.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from assay.ids import content_hash
from assay.records import Split, record
from environments.domains import _geometry_assemblies, _geometry_measure, _geometry_parts, _geometry_simple
from environments.domains._common import side, task_rng
from environments.domains._geometry_family import Family, Operations, Problem
from environments.domains._geometry_model import BadOperation, Model
from environments.domains._geometry_tools import call

FAMILIES = (*_geometry_simple.FAMILIES, *_geometry_parts.FAMILIES, *_geometry_assemblies.FAMILIES)
_LENGTHS = ("size", "radius", "top_radius", "tube_radius", "height", "at", "points", "by", "about", "centre", "offset")
_SHIFT = (7.0, -13.0, 11.0)
_AXIS_OF = {"yz": 0, "xz": 1, "xy": 2}
_NUM_TRIES = 200


@record
class Instance:
    """A problem with its template. `digest` identifies the answer."""

    family: Family
    template: str
    problem: Problem
    digest: str


def draw(split: Split, index: int, seed: int, level: int) -> Instance:
    """Depends on its arguments only. Families of the level take turns, in an order of their own for each seed."""
    rng = task_rng("geometry", split, index, seed)
    family = rng.choice([each for each in FAMILIES if each.level == level])
    for _ in range(_NUM_TRIES):
        variant = rng.choice(_variants(family.id, split))
        problem = family.write(rng, variant)
        digest = content_hash([problem.given, problem.calls])
        if _held_out(digest) == (split == "heldout"):
            break
    return Instance(family=family, template=family.name(variant), problem=problem, digest=digest)


@lru_cache(maxsize=128)
def _variants(family_id: str, split: Split) -> list[Any]:
    family = next(each for each in FAMILIES if each.id == family_id)
    return side(family.variants, split, family.id)


def _held_out(digest: str) -> bool:
    return int(digest[:8], 16) % 4 == 0


def other_ways(reference: Operations) -> list[Operations]:
    """The same solids from other primitives, from another place, and from twice the size."""
    return [_other_primitives(reference), _elsewhere(reference), _twice_as_large(reference)]


def exploits(given: Operations, reference: Operations) -> list[Operations]:
    """Ways to look right without being right: none of them may pass."""
    model = Model([*given, *reference])
    bodies, placed = model.result().bodies, bool(model.nodes)
    last, size = list(bodies)[-1], _geometry_measure.span(bodies)
    made = [
        *_blocks(given, bodies),
        [*reference, *_loose(last, size, placed)],
        [*reference, *_doubled(last, reference, placed)],
        [*reference, *_speck(size, placed)],
        *([_joined(reference, model, placed)] if len(bodies) > 1 else []),
        *([] if given else [scaled(reference, factor) for factor in (25.4, 1000.0, 1 / 25.4)]),
    ]
    return [tuple(operations) for operations in made]


def scaled(operations: Sequence[Mapping[str, Any]], factor: float) -> Operations:
    """The same model with all lengths times a factor."""

    def times(value: Any) -> Any:
        return [times(each) for each in value] if isinstance(value, (list, tuple)) else value * factor

    def changed(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        lengths = (*_LENGTHS, "step") if name == "linear_pattern" else _LENGTHS
        return {key: times(value) if key in lengths else value for key, value in arguments.items()}

    return tuple({**each, "arguments": changed(each["name"], each["arguments"])} for each in operations)


def worsened(given: Operations, reference: Operations) -> list[Operations]:
    """The right model, ever larger: each is worse than the one before."""
    if not given:
        return [scaled(reference, factor) for factor in (1.04, 1.12, 1.3, 1.7)]
    names = Model([*given, *reference]).solids
    return [
        (*reference, *(call("scale", name=name, factors=[factor] * 3) for name in names))
        for factor in (1.04, 1.12, 1.3, 1.7)
    ]


def _blocks(given: Operations, bodies: Mapping[str, Any]) -> list[list[Any]]:
    """Every body replaced by the block around it; none where that is the very thing."""
    figures = {name: _geometry_measure.facts(solid) for name, solid in bodies.items()}
    if all(each.volume > 0.999 * float(np.prod(np.subtract(each.high, each.low))) for each in figures.values()):
        return []
    emptied = [call("delete", name=name) for name in Model(given).solids]
    made = [
        call("box", name=name, size=[round(h - w, 6) for h, w in zip(each.high, each.low, strict=True)], at=each.low)
        for name, each in figures.items()
    ]
    return [[*emptied, *made]]


def _loose(name: str, size: float, placed: bool) -> list[Any]:
    """A floating ball: one solid with the last body, or one more node of a scene."""
    ball = call("sphere", name="ball", radius=size / 20, at=[0, 0, 2 * size])
    end = call("place", node="ball", part="ball") if placed else call("union", name=name, of=[name, "ball"])
    return [ball, end]


def _doubled(name: str, reference: Operations, placed: bool) -> list[Any]:
    if not placed:
        return [call("copy", name=name, new_name="twin")]
    place = next(each for each in reversed(reference) if each["arguments"].get("node") == name)
    return [{**place, "arguments": {**place["arguments"], "node": "twin"}}]


def _speck(size: float, placed: bool) -> list[Any]:
    speck = call("sphere", name="speck", radius=max(size / 2000, 0.01))
    return [speck, call("place", node="speck", part="speck")] if placed else [speck]


def _joined(reference: Operations, model: Model, placed: bool) -> list[Any]:
    """Everything in one solid where several were asked for."""
    names = list(model.solids)
    kept = [each for each in reference if each["name"] != "place"]
    end = [call("place", node=next(iter(model.result().bodies)), part=names[0])] if placed else []
    return [*kept, call("union", name=names[0], of=names), *end]


def _other_primitives(reference: Operations) -> Operations:
    def other(operation: Mapping[str, Any]) -> Mapping[str, Any]:
        given = dict(operation["arguments"])
        if operation["name"] == "box":
            x, y, z = given.pop("size")
            return call("extrude", points=[[0, 0], [x, 0], [x, y], [0, y]], height=z, **given)
        if operation["name"] == "cylinder":
            return call("cone", top_radius=given["radius"], **given)
        return operation

    return tuple(map(other, reference))


def _elsewhere(reference: Operations) -> Operations:
    """Every solid is made aside and moved into place just before the scene, or the end."""

    def shifted(operation: Mapping[str, Any]) -> Mapping[str, Any]:
        name, given = operation["name"], dict(operation["arguments"])
        key = {"rotate": "about", "scale": "about", "circular_pattern": "centre"}.get(name, "at")
        if name == "mirror":
            given["offset"] = given.get("offset", 0) + _SHIFT[_AXIS_OF[given["plane"]]]
        elif name in ("box", "cylinder", "cone", "sphere", "torus", "extrude", "rotate", "scale", "circular_pattern"):
            given[key] = [a + b for a, b in zip(given.get(key, (0, 0, 0)), _SHIFT, strict=True)]
        return {**operation, "arguments": given}

    return _before_scene(map(shifted, reference), lambda name: call("move", name=name, by=[-v for v in _SHIFT]))


def _twice_as_large(reference: Operations) -> Operations:
    modelling = [each for each in reference if each["name"] not in ("place", "remove")]
    scene = [each for each in reference if each["name"] in ("place", "remove")]
    large = [*scaled(modelling, 2.0), *scene]
    return _before_scene(large, lambda name: call("scale", name=name, factors=[0.5] * 3))


def _before_scene(operations: Any, end: Any) -> Operations:
    modelling: list[Any] = []
    scene: list[Any] = []
    for each in operations:
        (scene if each["name"] in ("place", "remove") else modelling).append(each)
    return (*modelling, *(end(name) for name in Model(modelling).solids), *scene)


def replays(operations: Operations) -> str:
    """Why they can't be replayed to something, empty when they can."""
    try:
        return "" if Model(operations).result().bodies else "nothing is left"
    except BadOperation as fault:
        return str(fault)
