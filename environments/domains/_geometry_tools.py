"""The modelling API as tools: what each does, and the JSON schema of its arguments.

    solids     box cylinder cone sphere torus extrude        combine   union difference intersection
    transform  move rotate scale mirror copy                 patterns  linear_pattern circular_pattern
    scene      place remove                                  look      list measure render
    names      rename delete                                 end       finish

Tools that change the model are its operations: their calls, in order, are the whole state of an episode.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from assay.ids import canonical_json
from assay.records import Tool

MAX_COORDINATE = 100_000.0  # millimetres
MIN_SIZE = 0.001
SEGMENTS = 96

CONVENTIONS = f"""You build parts with a modelling API by calling its tools; several calls may go in one message.
Lengths are millimetres unless the task says otherwise, angles are degrees, z points up, axes are right-handed.
A box is given by its corner of least coordinates; a cylinder, cone or extrusion by the centre (or profile origin) of
its base, from which it rises along its axis; a sphere or torus by its centre. Round solids have {SEGMENTS} facets.
Boolean tools consume the solids they are given. A scene is a tree of named nodes: `place` puts a copy of a solid into
it, and a node's position is relative to its parent. What counts at the end: the nodes of the scene if anything was
placed, otherwise every solid that is left. Leave nothing that was not asked for. Call `finish` when you are done."""

_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"}
_COORDINATE = {"type": "number", "minimum": -MAX_COORDINATE, "maximum": MAX_COORDINATE}
_LENGTH = {"type": "number", "minimum": MIN_SIZE, "maximum": MAX_COORDINATE}
_ANGLE = {"type": "number", "minimum": -3600, "maximum": 3600}
_FACTOR = {"type": "number", "minimum": 0.001, "maximum": 1000}
_COUNT = {"type": "integer", "minimum": 2, "maximum": 64}
_AXIS = {"enum": ["x", "y", "z"]}
_FLAG = {"type": "boolean"}


def _list(items: Mapping[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


_POINT, _ANGLES = _list(_COORDINATE, 3, 3), _list(_ANGLE, 3, 3)
_NAMES = _list(_NAME, 1, 32)


def _tool(
    name: str, description: str, properties: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> Tool:
    schema = {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=schema)


OPERATIONS = (
    _tool("box", "A box with its least corner at `at`.", {"name": _NAME, "size": _list(_LENGTH, 3, 3)}, {"at": _POINT}),
    _tool(
        "cylinder",
        "A cylinder whose base centre is `at`, rising along `axis` (default z).",
        {"name": _NAME, "radius": _LENGTH, "height": _LENGTH},
        {"at": _POINT, "axis": _AXIS},
    ),
    _tool(
        "cone",
        "A cone, or a frustum when `top_radius` is above 0; placed like a cylinder.",
        {"name": _NAME, "radius": _LENGTH, "top_radius": {**_LENGTH, "minimum": 0}, "height": _LENGTH},
        {"at": _POINT, "axis": _AXIS},
    ),
    _tool("sphere", "A sphere with its centre at `at`.", {"name": _NAME, "radius": _LENGTH}, {"at": _POINT}),
    _tool(
        "torus",
        "A ring around `axis`: `radius` to the middle of the tube, `tube_radius` of the tube.",
        {"name": _NAME, "radius": _LENGTH, "tube_radius": _LENGTH},
        {"at": _POINT, "axis": _AXIS},
    ),
    _tool(
        "extrude",
        "A polygon raised along `axis`. Its points are (x, y) for axis z, (y, z) for x, (z, x) for y, seen from `at`.",
        {"name": _NAME, "points": _list(_list(_COORDINATE, 2, 2), 3, 200), "height": _LENGTH},
        {"at": _POINT, "axis": _AXIS},
    ),
    _tool("move", "Move a solid.", {"name": _NAME, "by": _POINT}),
    _tool(
        "rotate",
        "Turn a solid about the x, then the y, then the z axis through `about` (default origin).",
        {"name": _NAME, "angles": _ANGLES},
        {"about": _POINT},
    ),
    _tool(
        "scale",
        "Scale a solid by a factor for each axis, seen from `about` (default origin).",
        {"name": _NAME, "factors": _list(_FACTOR, 3, 3)},
        {"about": _POINT},
    ),
    _tool(
        "mirror",
        "Mirror a solid at a plane, `offset` from the origin; with `keep` the solid itself stays, joined to its image.",
        {"name": _NAME, "plane": {"enum": ["xy", "yz", "xz"]}},
        {"offset": _COORDINATE, "keep": _FLAG},
    ),
    _tool("copy", "A second solid like the first.", {"name": _NAME, "new_name": _NAME}),
    _tool("rename", "Give a solid another name.", {"name": _NAME, "new_name": _NAME}),
    _tool("delete", "Delete a solid.", {"name": _NAME}),
    _tool("union", "Join solids into one, called `name`.", {"name": _NAME, "of": _NAMES}),
    _tool("intersection", "What solids have in common, called `name`.", {"name": _NAME, "of": _NAMES}),
    _tool("difference", "Cut solids out of `name`.", {"name": _NAME, "minus": _NAMES}),
    _tool(
        "linear_pattern",
        "`count` copies of a solid, itself included, each `step` further, joined.",
        {"name": _NAME, "step": _POINT, "count": _COUNT},
    ),
    _tool(
        "circular_pattern",
        "`count` copies of a solid, itself included around `axis` through `centre`, `step` degrees (360 / count) "
        "apart.",
        {"name": _NAME, "count": _COUNT},
        {"axis": _AXIS, "centre": _POINT, "step": _ANGLE},
    ),
    _tool(
        "place",
        "Add a node to the scene: a copy of solid `part` (none: an empty group), rotated, then moved to `at`.",
        {"node": _NAME},
        {"part": _NAME, "parent": _NAME, "at": _POINT, "angles": _ANGLES},
    ),
    _tool("remove", "Remove a node without children from the scene.", {"node": _NAME}),
)
LIST = _tool("list", "Name every solid and every node.", {})
MEASURE = _tool("measure", "Volume, bounds, number of flat faces and of bodies of a solid or node.", {"name": _NAME})
RENDER = _tool(
    "render",
    "A picture of the model from one side.",
    {},
    {
        "view": {"enum": ["iso", "front", "back", "left", "right", "top", "bottom"]},
        "projection": {"enum": ["orthographic", "perspective"]},
    },
)
FINISH = _tool("finish", "End the work.", {})
TOOLS = (*OPERATIONS, LIST, MEASURE, RENDER, FINISH)
_BY_NAME = {tool.name: tool for tool in OPERATIONS}


@lru_cache(maxsize=64)
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(dict(_BY_NAME[name].parameters))


def fault_of(operation: Any) -> str:
    """What is wrong with `{"name": ..., "arguments": {...}}` as an operation, empty when nothing is."""
    if not isinstance(operation, dict) or operation.get("name") not in _BY_NAME:
        return "it is not an operation of the modelling API"
    fault = next(iter(_validator(operation["name"]).iter_errors(operation.get("arguments"))), None)
    return "" if fault is None else f"{operation['name']}: {fault.message[:200]}"


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """An operation as data."""
    return {"name": name, "arguments": arguments}


def digest_text(operations: Sequence[Mapping[str, Any]]) -> str:
    """The canonical text of operations: equal sequences give equal texts."""
    return canonical_json({"operations": list(operations)})
