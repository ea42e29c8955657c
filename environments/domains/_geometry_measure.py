"""Figures of solids: is it sound, how large, how many faces and bodies, how far are two apart.

All are exact for the faceted solids but the Chamfer distance, which compares points drawn on both surfaces with a fixed
seed, so it repeats.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.records import record

NUM_SAMPLES = 1_000
_DUST = 1e-9  # of a solid's volume: pieces below it are rounding, not bodies
_FLAT = 1e-5  # radians between the normals of triangles of one flat face

Solid = Any
Array = Any


@record
class Facts:
    """Of one solid. Lengths in mm; `low` and `high` are its bounds; `genus` counts through-holes of all its bodies."""

    sound: bool
    volume: float
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    num_bodies: int
    genus: int

    @property
    def diagonal(self) -> float:
        return math.dist(self.low, self.high)


def facts(solid: Solid) -> Facts:
    """Of a solid of the kernel."""
    bounds = tuple(map(float, solid.bounding_box()))
    parts = bodies(solid)
    return Facts(
        sound=is_sound(*triangles(solid)),
        volume=float(solid.volume()),
        low=(bounds[0], bounds[1], bounds[2]),
        high=(bounds[3], bounds[4], bounds[5]),
        num_bodies=len(parts),
        genus=sum(part.genus() for part in parts),
    )


def bodies(solid: Solid) -> list[Solid]:
    """Its connected pieces without rounding dust, largest first; the shell of a cavity belongs to what it hollows."""
    pieces = solid.decompose()
    least = _DUST * abs(solid.volume())
    real = [piece for piece in pieces if piece.volume() > least]
    return sorted(real, key=lambda piece: -piece.volume())


def triangles(solid: Solid) -> tuple[Array, Array]:
    """Vertices [V, 3] in mm and triangles [T, 3]."""
    mesh = solid.to_mesh64()
    return np.asarray(mesh.vert_properties)[:, :3], np.asarray(mesh.tri_verts, dtype=np.int64)


def is_sound(vertices: Array, faces: Array) -> bool:
    """Whether a mesh is finite, closed, wound consistently and encloses a positive volume (not inside out)."""
    if not len(faces) or not np.isfinite(vertices).all():
        return False
    mesh = _mesh(vertices, faces)
    return bool(mesh.is_watertight and mesh.is_winding_consistent and mesh.volume > 0)


def num_flat_faces(solid: Solid) -> int:
    """Flat faces, however they are cut into triangles; each facet of a round face counts."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    mesh = _mesh(*triangles(solid))
    pairs = mesh.face_adjacency[mesh.face_adjacency_angles < _FLAT]
    joins = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(mesh.faces),) * 2)
    return int(connected_components(joins, directed=False)[0])


class Surface:
    """Points [NUM_SAMPLES, 3] spread evenly at random over a solid; equal solids and seeds give equal points."""

    def __init__(self, solid: Solid, *, seed: int = 0) -> None:
        import trimesh
        from scipy.spatial import cKDTree

        points, _ = trimesh.sample.sample_surface(_mesh(*triangles(solid)), NUM_SAMPLES, seed=seed)
        self.points = np.asarray(points)
        self._tree = cKDTree(self.points)

    def chamfer(self, other: "Surface") -> float:
        """The mean distance in mm from each point of one to the nearest of the other, both ways."""
        there, back = self._tree.query(other.points)[0], other._tree.query(self.points)[0]
        return float((there.mean() + back.mean()) / 2)


def common(a: Solid, b: Solid) -> float:
    """The volume in mm³ that belongs to both."""
    return max(0.0, float((a ^ b).volume()))


def overlap(a: Solid, b: Solid) -> float:
    """Intersection over union, 0..1."""
    return iou(common(a, b), float(a.volume() + b.volume()))


def iou(shared: float, both: float) -> float:
    """From the common volume and the sum of two volumes."""
    return min(1.0, shared / max(both - shared, 1e-12))


def block(found: Facts) -> Solid:
    """The box with a solid's bounds."""
    import manifold3d

    size = np.subtract(found.high, found.low)
    return manifold3d.Manifold.cube(size).translate(np.asarray(found.low))


def span(solids: Mapping[str, Solid]) -> float:
    """The diagonal of the bounds around all solids, in mm; 0 for none."""
    if not solids:
        return 0.0
    bounds = np.array([solid.bounding_box() for solid in solids.values()])
    return float(np.linalg.norm(bounds[:, 3:].max(axis=0) - bounds[:, :3].min(axis=0)))


def told(name: str, solid: Solid) -> str:
    """The figures in words, for the modeller."""
    found = facts(solid)
    return (
        f"{name}: volume {found.volume:.6g} mm3, bounds {_point(found.low)} to {_point(found.high)}, "
        f"{num_flat_faces(solid)} flat faces, {found.num_bodies} bodies, {found.genus} through-holes"
    )


def _point(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{round(v, 6) + 0.0:.6g}" for v in values) + ")"


def _mesh(vertices: Array, faces: Array) -> Any:
    import trimesh

    return trimesh.Trimesh(vertices, faces, process=False, validate=False)
