"""From a stored list of operations to figures in 0..1: rebuilt, and compared node by node with the reference.

    operations --replay--> bodies --gates--> sound? in the right unit? no duplicates, loose or hidden pieces?
                             └--for each node asked for--> overlap, surface, volume, bounds, topology
                             └--the whole-----------------> nodes, relations

Nothing is earned for what was there already or is free to have: each node's figures are scaled so that a block with
the right outside earns nothing (unless a block is what was asked for), and all of them so that the given model does.
"""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from assay.ids import canonical_json
from assay.records import record
from environments.domains import _geometry_measure as measure
from environments.domains import _geometry_relations as relations
from environments.domains._geometry_kernel import BadOperation
from environments.domains._geometry_measure import Facts
from environments.domains._geometry_model import Model, Result

Operations = Sequence[Mapping[str, Any]]

# With these shares the terms of a perfect result add up to exactly 1 in floating point.
SHAPE = {"overlap": 4.0, "surface": 2.0, "volume": 1.0, "bounds": 1.0, "topology": 2.0}
WHOLE = {"nodes": 2.0, "relations": 2.0}
_SMALLEST_SHARE = 0.2  # of the reference's smallest solid may be in the wrong place
_FACETS = 6e-4  # of a solid's volume may differ, for round faces whose facets are turned
_VOLUME = 2e-3
_BOUNDS = 1e-3  # of the diagonal, and at least
_BOUNDS_MM = 0.02
_SURFACE = 1e-3  # of the diagonal, beyond what two samplings of one surface are apart
_TINY = 0.01  # of the smallest body asked for
_SAME = 0.9  # overlap from which two bodies are one drawn twice
# The kernel's lazily made solids are not to be read by two threads at once, and a built reference is shared.
_ONE_AT_A_TIME = threading.Lock()
_UNIT_FACTORS = (10.0, 25.4, 100.0, 304.8, 1000.0)


@record
class Target:
    """What is wanted: operations before and of the reference, and how it is compared.

    `free`: each body may stand anywhere, only relations tie them. `faces`: the number of flat faces counts too.
    """

    given: Operations
    reference: Operations
    relations: Sequence[Mapping[str, Any]] = ()
    free: bool = False
    faces: bool = False

    @property
    def text(self) -> str:
        """All of it; equal targets have equal texts."""
        parts = {"given": list(self.given), "reference": list(self.reference), "relations": list(self.relations)}
        return canonical_json({**parts, "free": self.free, "faces": self.faces})

    @property
    def terms(self) -> Mapping[str, float]:
        """The outcome's terms and their relative weights."""
        names = {name: weight for name, weight in WHOLE.items() if name != "relations" or self.relations}
        return {**SHAPE, **names}


@record
class Judged:
    """Every outcome term in 0..1, the gates, whether all is within tolerance, and why not, by term or gate."""

    values: Mapping[str, float]
    gates: Mapping[str, bool]
    passed: bool
    notes: Mapping[str, str] = field(default_factory=dict)


@record
class _Likeness:
    """Of one body to the one asked for."""

    values: Mapping[str, float]
    fault: str

    @property
    def quality(self) -> float:
        return sum(self.values[name] * weight for name, weight in SHAPE.items()) / sum(SHAPE.values())

    def scaled(self, factor: float) -> "_Likeness":
        return _Likeness(values={name: value * factor for name, value in self.values.items()}, fault=self.fault)


_ABSENT = _Likeness(values=dict.fromkeys(SHAPE, 0.0), fault="it is not there")


@record
class _Grade:
    values: Mapping[str, float]
    faults: Mapping[str, str]


def judge(target: Target, operations: Operations) -> Judged:
    """The figures. Raises BadOperation when the target itself cannot be built, never for the operations judged."""
    with _ONE_AT_A_TIME:
        return _judge(target, _reference(target.text), operations)


def _judge(target: Target, reference: "_Reference", operations: Operations) -> Judged:
    nothing = dict.fromkeys(target.terms, 0.0)
    try:
        found = Model([*target.given, *operations]).result()
    except BadOperation as fault:
        return Judged(values=nothing, gates={"readable": False}, passed=False, notes={"readable": str(fault)})
    if not found.bodies:
        return Judged(values=nothing, gates={}, passed=False, notes={"nodes": "nothing was left"})
    shut = _shut(reference.wanted, found)
    gates = {name: name not in shut for name in ("readable", "sound", "units", "separate", "connected", "whole")}
    if shut:
        return Judged(values=nothing, gates=gates, passed=False, notes=shut)
    grade = _grade(target, reference.wanted, found)
    factor = _beyond(_quality(target, grade), reference.free_share)
    values = {name: value * factor for name, value in grade.values.items()}
    return Judged(values=values, gates=gates, passed=not grade.faults, notes=grade.faults)


class _Reference:
    """What is wanted, built; kept for the siblings of a group, which are judged by the same target.

    `free_share` is the quality of the model that was given, 0 where there was none.
    """

    def __init__(self, target: Target) -> None:
        model = Model([*target.given, *target.reference])
        bodies = model.result().bodies
        if not bodies:
            raise BadOperation("nothing is left")
        self.wanted = {name: _Wanted(solid, model.smallest, target) for name, solid in bodies.items()}
        given = Model(target.given).result()
        self.free_share = _quality(target, _grade(target, self.wanted, given)) if given.bodies else 0.0


@lru_cache(maxsize=16)
def _reference(target: str) -> _Reference:
    return _Reference(Target(**json.loads(target)))


class _Wanted:
    """A body asked for, with what is needed to compare many others with it."""

    def __init__(self, solid: Any, smallest: float, target: Target) -> None:
        self.solid, self.target = solid, target
        self.facts = measure.facts(solid)
        self.faces = measure.num_flat_faces(solid) if target.faces else None
        self.surface = measure.Surface(solid)
        # How far apart two samplings of one surface are: what a perfect copy may show.
        self.floor = self.surface.chamfer(measure.Surface(solid, seed=1))
        self.slack = min(_SMALLEST_SHARE * smallest, _VOLUME * self.facts.volume) + _FACETS * self.facts.volume
        # All of a solid lies in the block around it.
        plain = self._likeness(measure.block(self.facts), self.facts.volume)
        self._block = 0.0 if not plain.fault else plain.quality

    def likeness(self, solid: Any) -> _Likeness:
        """Zero for a block with the same bounds, unless that is what is wanted."""
        if self.target.free:
            solid = solid.translate(np.subtract(self.facts.low, solid.bounding_box()[:3]))
        raw = self._likeness(solid, measure.common(solid, self.solid))
        return raw.scaled(_beyond(raw.quality, self._block))

    def _likeness(self, solid: Any, shared: float) -> _Likeness:
        """`shared` is the volume both have."""
        wanted, found = self.facts, measure.facts(solid)
        apart = max(0.0, self.surface.chamfer(measure.Surface(solid)) - self.floor) / wanted.diagonal
        corner = float(np.abs(np.subtract((*found.low, *found.high), (*wanted.low, *wanted.high))).max())
        change = abs(found.volume - wanted.volume) / wanted.volume
        differs = found.volume + wanted.volume - 2 * shared
        matches = self._matches(solid, found)
        values = {
            "overlap": measure.iou(shared, found.volume + wanted.volume),
            "surface": max(0.0, 1.0 - 10 * apart),
            "volume": max(0.0, 1.0 - change),
            "bounds": max(0.0, 1.0 - 5 * corner / wanted.diagonal),
            "topology": sum(matches.values()) / len(matches),
        }
        far = _SURFACE + 0.3 * self.floor / wanted.diagonal
        kept = {
            f"{differs:.4g} mm3 differ": differs <= self.slack,
            f"the surfaces are {apart:.2%} of the diagonal apart": apart <= far,
            f"the volume is {change:.2%} off": change <= _VOLUME,
            f"the bounds are {corner:.4g} mm off": corner <= max(_BOUNDS_MM, _BOUNDS * wanted.diagonal),
            **matches,
        }
        return _Likeness(values=values, fault="; ".join(fault for fault, held in kept.items() if not held))

    def _matches(self, solid: Any, found: Facts) -> dict[str, bool]:
        wanted = self.facts
        matches = {
            f"{found.num_bodies} bodies instead of {wanted.num_bodies}": found.num_bodies == wanted.num_bodies,
            f"{found.genus} through-holes instead of {wanted.genus}": found.genus == wanted.genus,
        }
        if self.faces is not None:
            num_faces = measure.num_flat_faces(solid)
            matches[f"{num_faces} flat faces instead of {self.faces}"] = num_faces == self.faces
        return matches


def _grade(target: Target, wanted: Mapping[str, _Wanted], found: Result) -> _Grade:
    """Every term before what the given model earns is taken off, and what is not within tolerance, by term."""
    pairs = _paired(wanted, found)
    alike = {name: wanted[name].likeness(solid) if solid is not None else _ABSENT for name, solid in pairs.items()}
    values = {name: sum(each.values[name] for each in alike.values()) / len(alike) for name in SHAPE}
    shared = set(wanted) & set(found.bodies)
    # Names and relations of wrong shapes are worth nothing.
    likeness = sum(each.quality for each in alike.values()) / len(alike)
    values["nodes"] = likeness * len(shared) / max(len(wanted), len(found.bodies))
    faults = {"overlap": "; ".join(f"{name}: {each.fault}" for name, each in alike.items() if each.fault)}
    if shared != set(wanted) or len(found.bodies) != len(wanted):
        faults["nodes"] = f"there are {_listed(found.bodies)}; asked for {_listed(wanted)}"
    if target.relations:
        diagonal = measure.span({name: each.solid for name, each in wanted.items()})
        broken = [each for each in target.relations if not relations.holds(each, found, diagonal)]
        values["relations"] = likeness * (1.0 - len(broken) / len(target.relations))
        faults["relations"] = "; ".join(f"not so: {relations.told(each)}" for each in broken)
    return _Grade(values=values, faults={name: fault for name, fault in faults.items() if fault})


def _paired(wanted: Mapping[str, _Wanted], found: Result) -> dict[str, Any]:
    """The body for each one asked for, by name; where there is one of each they are a pair whatever their names."""
    if len(wanted) == len(found.bodies) == 1:
        return {next(iter(wanted)): next(iter(found.bodies.values()))}
    return {name: found.bodies.get(name) for name in wanted}


def _shut(wanted: Mapping[str, _Wanted], found: Result) -> dict[str, str]:
    """The gates that are closed, and why."""
    figures = {name: measure.facts(solid) for name, solid in found.bodies.items()}
    pieces = [piece.volume() for solid in found.bodies.values() for piece in measure.bodies(solid)]
    least = _TINY * min(each.facts.volume / max(1, each.facts.num_bodies) for each in wanted.values())
    names = _paired(wanted, found)
    loose = [
        name
        for name, solid in names.items()
        if solid is not None and len(measure.bodies(solid)) > wanted[name].facts.num_bodies
    ]
    ratio = measure.span(found.bodies) / measure.span({name: each.solid for name, each in wanted.items()})
    unit = next((f for f in _UNIT_FACTORS if min(abs(ratio / f - 1), abs(ratio * f - 1)) < 0.005), None)
    why = {
        "sound": _listed([name for name, each in figures.items() if not each.sound]),
        "units": f"{ratio:.4g} times the size asked for: another unit" if unit is not None else "",
        "separate": _listed(_doubled(found.bodies, figures)),
        "connected": f"more loose pieces than asked for: {_listed(loose)}" if loose else "",
        "whole": f"{sum(volume < least for volume in pieces)} pieces far smaller than anything asked for",
    }
    closed = {**{name: bool(text) for name, text in why.items()}, "whole": any(volume < least for volume in pieces)}
    return {name: text for name, text in why.items() if closed[name]}


def _doubled(bodies: Mapping[str, Any], figures: Mapping[str, Facts]) -> list[str]:
    """Names of bodies that are another one again, in the same place."""
    again = []
    for first, second in combinations(bodies, 2):
        a, b = figures[first], figures[second]
        near = math.dist(a.low, b.low) + math.dist(a.high, b.high) <= 0.2 * a.diagonal
        if near and measure.overlap(bodies[first], bodies[second]) > _SAME:
            again.append(second)
    return again


def _quality(target: Target, grade: _Grade) -> float:
    weights = target.terms
    return sum(grade.values[name] * weight for name, weight in weights.items()) / sum(weights.values())


def _beyond(quality: float, free: float) -> float:
    """The factor that turns a quality into its share of what lies between `free` and 1."""
    if quality <= free or quality <= 0.0:
        return 0.0
    return (quality - free) / (1.0 - free) / quality


def _listed(names: Any) -> str:
    return ", ".join(names)
