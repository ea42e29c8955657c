"""Declared constraints between nodes, checked on what was built rather than on how.

parent    a's parent is b (None: it stands at the root)
on        a's lowest point lies at the height of b's highest, and they touch
centred   the middles of the bounds of a and b agree along `axes`
level     the lowest points of a and b have the same height
touching  a and b touch and do not overlap
gap       a and b are `distance` apart (the least distance between their surfaces)
beyond    along `axis`, a begins `distance` after b ends
"""

from collections.abc import Mapping
from typing import Any

from environments.domains._geometry_model import Result

TOLERANCE = 0.02  # mm, or this share of a per cent of a large model
_SHARE = 2e-4
_AXES = "xyz"


def holds(relation: Mapping[str, Any], result: Result, diagonal: float) -> bool:
    """Whether it holds; false when a node it names is missing. `diagonal` is the model's, in mm."""
    if relation["kind"] == "parent":
        return relation["a"] in result.parents and result.parents[relation["a"]] == relation["b"]
    if any(relation[end] not in result.bodies for end in "ab"):
        return False
    return _CHECKS[relation["kind"]](
        result.bodies[relation["a"]], result.bodies[relation["b"]], relation, max(TOLERANCE, _SHARE * diagonal)
    )


def told(relation: Mapping[str, Any]) -> str:
    """For example `lid centred box`."""
    return f"{relation['a']} {relation['kind']} {relation['b']}"


def _on(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    return abs(a.bounding_box()[2] - b.bounding_box()[5]) <= near and _touching(a, b, relation, near)


def _centred(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    first, second = a.bounding_box(), b.bounding_box()
    places = [_AXES.index(axis) for axis in relation["axes"]]
    return all(abs(first[i] + first[i + 3] - second[i] - second[i + 3]) <= 2 * near for i in places)


def _level(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    return abs(a.bounding_box()[2] - b.bounding_box()[2]) <= near


def _touching(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    return _apart(a, b, 0.0, near)


def _gap(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    return _apart(a, b, relation["distance"], near)


def _beyond(a: Any, b: Any, relation: Mapping[str, Any], near: float) -> bool:
    axis = _AXES.index(relation["axis"])
    return abs(a.bounding_box()[axis] - b.bounding_box()[axis + 3] - relation["distance"]) <= near


def _apart(a: Any, b: Any, distance: float, near: float) -> bool:
    # Bodies that touch may share a sliver as thin as the tolerance.
    shared = (a ^ b).volume()
    return abs(a.min_gap(b, distance + 10 * near) - distance) <= near and shared <= 0.01 * min(a.volume(), b.volume())


_CHECKS = {"on": _on, "centred": _centred, "level": _level, "touching": _touching, "gap": _gap, "beyond": _beyond}
