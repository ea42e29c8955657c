"""What the model asks of the kernel (manifold3d, loaded when first used): checks, placing, joining, and their cost."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assay.records import record
from environments.domains._geometry_tools import MAX_COORDINATE

MAX_TRIANGLES = 40_000  # of one solid, and of all that one operation reads
MAX_SHOWN = 160_000  # of all solids, and of all nodes
_MIN_VOLUME = 1e-6
_DECIMALS = 7  # of a millimetre
# Solids are made along z; these cyclic changes of axes keep them right-handed. Rows: where x, y and z come from.
_ALONG = {"x": ((0, 0, 1), (1, 0, 0), (0, 1, 0)), "y": ((0, 1, 0), (0, 0, 1), (1, 0, 0))}

Matrix = Any  # numpy [3, 4]: rotation and translation
Solid = Any  # manifold3d.Manifold
Change = Callable[[Solid], Solid]


class BadOperation(Exception):
    """An operation that cannot be carried out; the message says why, for the modeller to read. Nothing changed."""


@record
class Piece:
    """A primitive within a solid: the box around it, which goes where it goes, and its number of triangles."""

    box: Solid
    num_triangles: int


def told_bounds(solid: Solid) -> str:
    """For example `from (0, 0, 0) to (10, 20, 5)`."""
    bounds = solid.bounding_box()
    low, high = (", ".join(f"{_tidy(v):.6g}" for v in part) for part in (bounds[:3], bounds[3:]))
    return f"from ({low}) to ({high})"


def _tidy(value: float) -> float:
    return round(value, 6) + 0.0


def listed(names: Any) -> str:
    """For people; `none` for no names."""
    return ", ".join(names) or "none"


def check(name: str, solid: Solid) -> None:
    """Raises BadOperation unless it is a solid of bearable size in a bearable place."""
    import manifold3d

    if solid.status() != manifold3d.Error.NoError:
        raise BadOperation(f"{name} cannot be made: {solid.status()}")
    if solid.is_empty() or not solid.volume() > _MIN_VOLUME:
        raise BadOperation(f"{name} would be empty")
    if solid.num_tri() > MAX_TRIANGLES:
        raise BadOperation(f"{name} would have {solid.num_tri():,} triangles; at most {MAX_TRIANGLES:,} are allowed")
    if not all(math.isfinite(v) and abs(v) <= MAX_COORDINATE for v in solid.bounding_box()):
        raise BadOperation(f"{name} would reach beyond {MAX_COORDINATE:,.0f} mm")


def check_sum(solids: Sequence[Solid]) -> None:
    """Raises BadOperation when they are too much together."""
    if (num := sum(solid.num_tri() for solid in solids)) > MAX_SHOWN:
        raise BadOperation(f"the model would have {num:,} triangles; at most {MAX_SHOWN:,} are allowed")


def stand(solid: Solid, at: Sequence[float], axis: str) -> Solid:
    """A solid made along z, along another axis and moved."""
    if axis == "z":
        return solid.translate(at)
    turn = np.asarray(_ALONG[axis], dtype=float)
    return solid.transform(np.column_stack([turn, np.asarray(at, dtype=float)]))


def about(solid: Solid, point: Any, change: Any) -> Solid:
    """A change as seen from a point."""
    shift = np.asarray(point, dtype=float)
    return change(solid.translate(-shift)).translate(shift)


def joined(solids: Sequence[Solid]) -> Solid:
    """Their union."""
    import manifold3d

    if len(solids) == 1:
        return solids[0]
    return manifold3d.Manifold.batch_boolean(list(solids), manifold3d.OpType.Add)


def box_around(solid: Solid) -> Solid:
    """The block with its bounds."""
    import manifold3d

    bounds = np.asarray(solid.bounding_box())
    return manifold3d.Manifold.cube(bounds[3:] - bounds[:3]).translate(bounds[:3])


def crossings(groups: Sequence[Sequence[Piece]]) -> tuple[int, int]:
    """How many pairs of pieces of different groups may meet, and the triangles in all these pairs."""
    if len(groups) == 1:
        return 0, 0
    pieces = [piece for group in groups for piece in group]
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    bounds = np.array([piece.box.bounding_box() for piece in pieces])
    low, high = bounds[:, :3], bounds[:, 3:]
    meet = owner[:, None] < owner[None, :]
    for axis in range(3):
        meet &= (low[:, None, axis] <= high[None, :, axis]) & (low[None, :, axis] <= high[:, None, axis])
    counts = np.array([piece.num_triangles for piece in pieces])
    return int(meet.sum()), int(counts @ meet.sum(axis=1) + counts @ meet.sum(axis=0))


def snapped(solid: Solid) -> Solid:
    """With vertices on a fine grid, so that faces meant to be flush are: 0.1 + 0.2 and 0.3 mm are one height."""
    return solid.warp_batch(lambda vertices: np.round(vertices, _DECIMALS))


def polygon(kernel: Any, points: Sequence[Sequence[float]]) -> Any:
    """The polygon's inside, whichever way round it is given. Raises BadOperation when it crosses or touches itself."""
    x, y = np.asarray(points, dtype=float).T
    area = 0.5 * float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    section = kernel.CrossSection([np.column_stack([x, y])], kernel.FillRule.EvenOdd)
    if section.num_contour() != 1 or abs(section.area() - abs(area)) > 1e-6 * abs(area) + 1e-9:
        raise BadOperation("extrude: the polygon crosses itself or has no area")
    return section


def placing(at: Sequence[float], angles: Sequence[float]) -> Matrix:
    """[3, 4]: turned about x, then y, then z, then moved."""
    turned = [_rotation(axis, angle) for axis, angle in enumerate(angles)]
    return np.column_stack([turned[2] @ turned[1] @ turned[0], np.asarray(at, dtype=float)])


def _rotation(axis: int, angle: float) -> Any:
    """[3, 3]; multiples of 90 degrees are exact."""
    quarter, rest = divmod(angle, 90.0)
    cos, sin = (math.cos(math.radians(angle)), math.sin(math.radians(angle))) if rest else (
        (1.0, 0.0, -1.0, 0.0)[int(quarter) % 4], (0.0, 1.0, 0.0, -1.0)[int(quarter) % 4]
    )  # fmt: skip
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[[first, first, second, second], [first, second, first, second]] = cos, -sin, sin, cos
    return matrix


def chained(outer: Matrix, inner: Matrix) -> Matrix:
    """The inner, then the outer."""
    turn = outer[:, :3]
    return np.column_stack([turn @ inner[:, :3], turn @ inner[:, 3] + outer[:, 3]])
