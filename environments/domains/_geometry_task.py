"""From (split, index, seed) to a problem, and from a reference to the scripts whose standing is known.

An instance belongs to a split twice over: its variant by the template's name, its reference by its own hash, so that
no answer is shared even where two templates could draw the same solid.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from assay.ids import content_hash
from assay.records import Split, record
from environments.domains import (
    _geometry_assemblies,
    _geometry_changes,
    _geometry_measure,
    _geometry_parts,
    _geometry_scenes,
    _geometry_simple,
)
from environments.domains._common import side, task_rng
from environments.domains._geometry_family import Family, Operations, Problem
from environments.domains._geometry_model import Model
from environments.domains._geometry_tools import call, fault_of

FAMILIES = (
    *_geometry_simple.FAMILIES,
    *_geometry_parts.FAMILIES,
    *_geometry_changes.FAMILIES,
    *_geometry_assemblies.FAMILIES,
    *_geometry_scenes.FAMILIES,
)
_LENGTHS = ("size", "radius", "top_radius", "tube_radius", "height", "at", "points", "by", "about", "centre", "offset")
_PRIMITIVES = ("box", "cylinder", "cone", "sphere", "torus", "extrude")
_LARGER = (1.04, 1.12, 1.3, 1.7)
_SHIFT = (7.0, -13.0, 11.0)
_AXIS_OF = {"yz": 0, "xz": 1, "xy": 2}


@record
class Instance:
    """A problem with its template. `digest` identifies the answer."""

    family: Family
    template: str
    problem: Problem
    digest: str


def draw(split: Split, index: int, seed: int, level: int) -> Instance:
    """Depends on its arguments only; the families of the level are equally likely."""
    rng = task_rng("geometry", split, index, seed)
    return _draw(rng.choice([each for each in FAMILIES if each.level == level]), split, rng)


def draw_family(family_id: str, split: Split, seed: int) -> Instance:
    """One of a family, by its name."""
    family = next(each for each in FAMILIES if each.id == family_id)
    return _draw(family, split, task_rng("geometry", split, -1, seed))


def _draw(family: Family, split: Split, rng: Random) -> Instance:
    while True:
        variant = rng.choice(_variants(family.id, split))
        problem = family.write(rng, variant)
        digest = content_hash([problem.given, problem.calls])
        if _held_out(digest) == (split == "heldout"):
            return Instance(family=family, template=family.name(variant), problem=problem, digest=digest)


@lru_cache(maxsize=128)
def _variants(family_id: str, split: Split) -> list[Any]:
    family = next(each for each in FAMILIES if each.id == family_id)
    return side(family.variants, split, family.id)


def _held_out(digest: str) -> bool:
    return int(digest[:8], 16) % 4 == 0


class Known:
    """Scripts that follow from a reference, with one model of it. Raises BadOperation when it cannot be built."""

    def __init__(self, given: Operations, reference: Operations) -> None:
        self.given, self.reference = given, reference
        self._model = Model([*given, *reference])
        self._bodies = self._model.result().bodies
        self._placed = bool(self._model.nodes)
        self._size = _geometry_measure.span(self._bodies)

    def other_ways(self) -> list[Operations]:
        """The same solids from other primitives, from another place, and from twice the size; none for a change."""
        if self.given:
            return []
        aside = [_shifted(each) for each in self.reference]
        large = [each if each["name"] == "place" else scaled([each], 2.0)[0] for each in self.reference]
        return [
            _other_primitives(self.reference),
            self._before_scene(aside, "move", by=[-v for v in _SHIFT]),
            self._before_scene(large, "scale", factors=[0.5] * 3),
        ]

    def exploits(self) -> list[Operations]:
        """Ways to look right without being right: none of them may pass."""
        last, reference = list(self._bodies)[-1], self.reference
        made = [
            *self._blocks(),
            [*reference, *_loose(last, self._size, self._placed)],
            [*reference, *_doubled(last, reference, self._placed)],
            [*reference, *_speck(self._size, self._placed)],
            *([self._joined()] if len(self._bodies) > 1 else []),
            *([] if self.given else [scaled(reference, factor) for factor in (25.4, 1000.0, 1 / 25.4)]),
        ]
        return [tuple(operations) for operations in made]

    def worsened(self) -> list[Operations]:
        """The right model, ever larger: each is worse than the one before."""
        if not self.given:
            return [scaled(self.reference, factor) for factor in _LARGER]
        return [
            (*self.reference, *(call("scale", name=name, factors=[factor] * 3) for name in self._model.solids))
            for factor in _LARGER
        ]

    def _blocks(self) -> list[list[Any]]:
        """Every body replaced by the block around it; none where that is the very thing."""
        made, is_block = [], []
        for name, solid in self._bodies.items():
            bounds = solid.bounding_box()
            size = [round(high - low, 6) for low, high in zip(bounds[:3], bounds[3:], strict=True)]
            made.append(call("box", name=name, size=size, at=list(bounds[:3])))
            is_block.append(solid.volume() > 0.999 * size[0] * size[1] * size[2])
        emptied = [call("delete", name=name) for name in Model(self.given).solids]
        return [] if all(is_block) else [[*emptied, *made]]

    def _joined(self) -> list[Any]:
        """Everything in one solid where several were asked for."""
        names = list(self._model.solids)
        kept = [each for each in self.reference if each["name"] != "place"]
        end = [call("place", node=next(iter(self._bodies)), part=names[0])] if self._placed else []
        return [*kept, call("union", name=names[0], of=names), *end]

    def _before_scene(self, operations: Sequence[Mapping[str, Any]], name: str, /, **arguments: Any) -> Operations:
        """The operations with one more for every solid, when all are made and none is placed yet."""
        scene = [each for each in operations if each["name"] == "place"]
        modelling = [each for each in operations if each["name"] != "place"]
        return (*modelling, *(call(name, name=solid, **arguments) for solid in self._model.solids), *scene)


def scaled(operations: Sequence[Mapping[str, Any]], factor: float) -> Operations:
    """The same model with all lengths times a factor."""

    def times(value: Any) -> Any:
        return [times(each) for each in value] if isinstance(value, (list, tuple)) else value * factor

    def changed(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        lengths = (*_LENGTHS, "step") if name == "linear_pattern" else _LENGTHS
        return {key: times(value) if key in lengths else value for key, value in arguments.items()}

    return tuple({**each, "arguments": changed(each["name"], each["arguments"])} for each in operations)


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


def _shifted(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same further along `_SHIFT`."""
    name, given = operation["name"], dict(operation["arguments"])
    key = {"rotate": "about", "scale": "about", "circular_pattern": "centre"}.get(name, "at")
    if name == "mirror":
        given["offset"] = given.get("offset", 0) + _SHIFT[_AXIS_OF[given["plane"]]]
    elif name in _PRIMITIVES or key != "at":
        given[key] = [a + b for a, b in zip(given.get(key, (0, 0, 0)), _SHIFT, strict=True)]
    return {**operation, "arguments": given}


def unbuildable(operations: Sequence[Mapping[str, Any]]) -> str:
    """What can be seen to be wrong with operations without building anything: faults, and solids that are not there."""
    there: set[str] = set()
    for index, operation in enumerate(operations):
        if fault := fault_of(operation):
            return f"operation {index}: {fault}"
        needed, gone, made = _solids(operation)
        if missing := sorted(needed - there):
            return f"operation {index}: {operation['name']} needs {', '.join(missing)}, which is not there"
        there = (there - gone) | made
    return "" if there else "nothing is left"


def _solids(operation: Mapping[str, Any]) -> tuple[set[str], set[str], set[str]]:
    """Names of the solids an operation needs, takes away, and makes or keeps."""
    name, given = operation["name"], operation["arguments"]
    own = {given["name"]} if "name" in given else set()
    parts = {*given.get("of", ()), *given.get("minus", ())}
    if name in ("union", "intersection"):
        return parts, parts, own
    if name in _PRIMITIVES:
        return set(), set(), own
    if name in ("place", "remove"):
        return {given["part"]} if "part" in given else set(), set(), set()
    renamed = {given["new_name"]} if "new_name" in given else set()
    gone = parts | (own if name in ("delete", "rename") else set())
    return own | parts, gone, renamed or (own - gone)
