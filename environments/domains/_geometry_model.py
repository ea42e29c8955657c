"""A model: named solids and a scene of placed copies, made by replaying operations.

    operations --apply one by one--> solids {name: manifold}, nodes {name: part, parent, place} --result()--> bodies

Solids are held by the kernel (manifold3d), whose results are closed, oriented and free of self-intersections. All
caps are counts, never times, so a replay succeeds or fails alike on every machine. One model, one thread at a time.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.records import record
from environments.domains import _geometry_kernel as kernel
from environments.domains._geometry_kernel import MAX_TRIANGLES, BadOperation, Change, Matrix, Piece, Solid
from environments.domains._geometry_tools import SEGMENTS, fault_of

MAX_OPERATIONS = 200
MAX_SOLIDS = 64
MAX_NODES = 64
MAX_PIECES = 1_500  # primitives in one solid
MAX_CROSSINGS = 1_500  # pairs of pieces that one operation may cut into each other
MAX_LOAD = 150_000  # triangles in one operation, each counted once and once more for every crossing of its piece
MAX_WORK = 1_000_000  # of all operations together
_TUBE_SEGMENTS = 48
_ORIGIN = (0.0, 0.0, 0.0)
_TURN = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
_NORMAL = {"xy": 2, "yz": 0, "xz": 1}


@record
class Node:
    """A place in the scene; `part` is None for a group. `matrix` [3, 4] is relative to the parent."""

    part: Solid | None
    parent: str | None
    matrix: Matrix


@record
class Result:
    """What counts at the end: solids in world coordinates by name, and each node's parent (groups included)."""

    bodies: Mapping[str, Solid]
    parents: Mapping[str, str | None]


class Model:
    """Starts empty. `smallest` is the volume in mm³ of the smallest solid that was ever created."""

    def __init__(self, operations: Sequence[Mapping[str, Any]] = ()) -> None:
        """Raises BadOperation, naming the place of the first operation that cannot be carried out."""
        self.solids: dict[str, Solid] = {}
        self.nodes: dict[str, Node] = {}
        self._pieces: dict[str, tuple[Piece, ...]] = {}
        self.smallest = math.inf
        self._num_operations = self._work = 0
        for index, operation in enumerate(operations):
            try:
                self.apply(operation)
            except BadOperation as fault:
                raise BadOperation(f"operation {index}: {fault}") from fault

    def apply(self, operation: Mapping[str, Any]) -> str:
        """What the operation did, in words. Raises BadOperation, and then nothing has changed."""
        if fault := fault_of(operation):
            raise BadOperation(fault)
        if self._num_operations >= MAX_OPERATIONS:
            raise BadOperation(f"there are {MAX_OPERATIONS} operations already, the most that is allowed")
        said: str = getattr(self, f"_{operation['name']}")(**operation["arguments"])
        self._num_operations += 1
        return said

    def result(self) -> Result:
        """The scene's bodies if anything was placed, else the solids."""
        if not self.nodes:
            return Result(bodies=dict(self.solids), parents={})
        bodies = {
            name: node.part.transform(self.world(name)) for name, node in self.nodes.items() if node.part is not None
        }
        return Result(bodies=bodies, parents={name: node.parent for name, node in self.nodes.items()})

    def world(self, name: str) -> Matrix:
        """[3, 4]: from a node's own coordinates to the world's."""
        node = self.nodes[name]
        return node.matrix if node.parent is None else kernel.chained(self.world(node.parent), node.matrix)

    # Solids

    def _box(self, name: str, size: Sequence[float], at: Sequence[float] = _ORIGIN) -> str:
        return self._create(name, lambda k: k.Manifold.cube(size).translate(at))

    def _cylinder(self, name: str, radius: float, height: float, at: Sequence[float] = _ORIGIN, axis: str = "z") -> str:
        return self._cone(name, radius, radius, height, at, axis)

    def _cone(
        self,
        name: str,
        radius: float,
        top_radius: float,
        height: float,
        at: Sequence[float] = _ORIGIN,
        axis: str = "z",
    ) -> str:
        return self._create(
            name, lambda k: kernel.stand(k.Manifold.cylinder(height, radius, top_radius, SEGMENTS), at, axis)
        )

    def _sphere(self, name: str, radius: float, at: Sequence[float] = _ORIGIN) -> str:
        return self._create(name, lambda k: k.Manifold.sphere(radius, SEGMENTS).translate(at))

    def _torus(
        self, name: str, radius: float, tube_radius: float, at: Sequence[float] = _ORIGIN, axis: str = "z"
    ) -> str:
        if tube_radius >= radius:
            raise BadOperation(f"torus: tube_radius {tube_radius:g} must be less than radius {radius:g}")

        def made(k: Any) -> Solid:
            tube = k.CrossSection.circle(tube_radius, _TUBE_SEGMENTS).translate((radius, 0.0))
            return kernel.stand(tube.revolve(SEGMENTS), at, axis)

        return self._create(name, made)

    def _extrude(
        self,
        name: str,
        points: Sequence[Sequence[float]],
        height: float,
        at: Sequence[float] = _ORIGIN,
        axis: str = "z",
    ) -> str:
        return self._create(
            name, lambda k: kernel.stand(k.Manifold.extrude(kernel.polygon(k, points), height), at, axis)
        )

    # Transforms

    def _move(self, name: str, by: Sequence[float]) -> str:
        return self._change(name, [lambda solid: solid.translate(by)])

    def _rotate(self, name: str, angles: Sequence[float], about: Sequence[float] = _ORIGIN) -> str:
        return self._change(name, [lambda solid: kernel.about(solid, about, lambda s: s.rotate(angles))])

    def _scale(self, name: str, factors: Sequence[float], about: Sequence[float] = _ORIGIN) -> str:
        return self._change(name, [lambda solid: kernel.about(solid, about, lambda s: s.scale(factors))])

    def _mirror(self, name: str, plane: str, offset: float = 0.0, keep: bool = False) -> str:
        normal = np.zeros(3)
        normal[_NORMAL[plane]] = 1.0

        def image(solid: Solid) -> Solid:
            return kernel.about(solid, normal * offset, lambda s: s.mirror(normal))

        return self._change(name, [lambda solid: solid, image] if keep else [image])

    def _copy(self, name: str, new_name: str) -> str:
        self._refuse_taken(new_name)
        return self._keep(new_name, self._get(name), self._pieces[name])

    def _rename(self, name: str, new_name: str) -> str:
        self._refuse_taken(new_name)
        self.solids[new_name], self._pieces[new_name] = self._get(name), self._pieces[name]
        self._forget(name)
        return f"{name} is now {new_name}"

    def _delete(self, name: str) -> str:
        self._get(name)
        self._forget(name)
        return f"deleted {name}"

    # Combinations and patterns

    def _union(self, name: str, of: Sequence[str]) -> str:
        return self._combine(name, of, "Add")

    def _intersection(self, name: str, of: Sequence[str]) -> str:
        return self._combine(name, of, "Intersect")

    def _difference(self, name: str, minus: Sequence[str]) -> str:
        return self._combine(name, [name, *minus], "Subtract")

    def _linear_pattern(self, name: str, step: Sequence[float], count: int) -> str:
        shift = np.asarray(step, dtype=float)

        def moved(index: int) -> Change:
            return lambda solid: solid.translate(shift * index)

        return self._change(name, [moved(i) for i in range(count)])

    def _circular_pattern(
        self, name: str, count: int, axis: str = "z", centre: Sequence[float] = _ORIGIN, step: float | None = None
    ) -> str:
        each = np.asarray(_TURN[axis]) * (360.0 / count if step is None else step)

        def turned(index: int) -> Change:
            return lambda solid: kernel.about(solid, centre, lambda s: s.rotate(each * index))

        return self._change(name, [turned(i) for i in range(count)])

    # Scene

    def _place(
        self,
        node: str,
        part: str | None = None,
        parent: str | None = None,
        at: Sequence[float] = _ORIGIN,
        angles: Sequence[float] = _ORIGIN,
    ) -> str:
        if node in self.nodes:
            raise BadOperation(f"there is a node {node!r} already; remove it first")
        if parent is not None and parent not in self.nodes:
            raise BadOperation(f"there is no node {parent!r} to be the parent; nodes: {kernel.listed(self.nodes)}")
        if len(self.nodes) >= MAX_NODES:
            raise BadOperation(f"there are {MAX_NODES} nodes already, the most that is allowed")
        solid = None if part is None else self._get(part)
        self.nodes[node] = Node(part=solid, parent=parent, matrix=kernel.placing(at, angles))
        try:
            if solid is not None:
                kernel.check(node, solid.transform(self.world(node)))
                kernel.check_sum([each.part for each in self.nodes.values() if each.part is not None])
        except BadOperation:
            del self.nodes[node]
            raise
        return f"placed {node}" + (f" under {parent}" if parent else "")

    def _remove(self, node: str) -> str:
        if node not in self.nodes:
            raise BadOperation(f"there is no node {node!r}; nodes: {kernel.listed(self.nodes)}")
        if children := [name for name, each in self.nodes.items() if each.parent == node]:
            raise BadOperation(f"{node!r} has children; remove {kernel.listed(children)} first")
        del self.nodes[node]
        return f"removed {node}"

    # What they share

    def _create(self, name: str, make: Any) -> str:
        import manifold3d

        self._refuse_taken(name)
        solid = kernel.snapped(make(manifold3d))
        kernel.check(name, solid)
        said = self._keep(name, solid, (Piece(box=kernel.box_around(solid), num_triangles=solid.num_tri()),))
        self.smallest = min(self.smallest, solid.volume())
        return said

    def _change(self, name: str, changes: Sequence[Change]) -> str:
        """Replace a solid by the union of what each change makes of it."""
        solid = self._get(name)
        copies = [
            [Piece(box=change(piece.box), num_triangles=piece.num_triangles) for piece in self._pieces[name]]
            for change in changes
        ]
        self._charge(copies, solid.num_tri() * len(changes))
        made = kernel.joined([kernel.snapped(change(solid)) for change in changes])
        return self._keep(name, made, [piece for pieces in copies for piece in pieces])

    def _combine(self, name: str, of: Sequence[str], how: str) -> str:
        import manifold3d

        if len(set(of)) != len(of):
            raise BadOperation(f"a solid is named twice in {', '.join(of)}")
        solids = [self._get(each) for each in of]
        if name not in of:
            self._refuse_taken(name)
        parts = [self._pieces[each] for each in of]
        self._charge(parts, sum(solid.num_tri() for solid in solids))
        made = manifold3d.Manifold.batch_boolean(solids, getattr(manifold3d.OpType, how))
        said = self._keep(name, made, [piece for pieces in parts for piece in pieces])
        for each in of:
            if each != name:
                self._forget(each)
        return said

    def _keep(self, name: str, solid: Solid, pieces: Sequence[Piece]) -> str:
        kernel.check(name, solid)
        if name not in self.solids and len(self.solids) >= MAX_SOLIDS:
            raise BadOperation(f"there are {MAX_SOLIDS} solids already, the most that is allowed")
        kernel.check_sum([solid, *(each for other, each in self.solids.items() if other != name)])
        self.solids[name], self._pieces[name] = solid, tuple(pieces)
        return f"{name}: {kernel.told_bounds(solid)}"

    def _charge(self, groups: Sequence[Sequence[Piece]], num_triangles: int) -> None:
        """Raises BadOperation when joining or cutting groups of pieces would take too long: told before it is done.

        What takes long is how often pieces of different groups cross, which the boxes around them bound.
        """
        if num_triangles > MAX_TRIANGLES:
            raise BadOperation(f"that takes {num_triangles:,} triangles; at most {MAX_TRIANGLES:,} are allowed")
        if (num_pieces := sum(map(len, groups))) > MAX_PIECES:
            raise BadOperation(f"that takes {num_pieces:,} pieces; at most {MAX_PIECES:,} are allowed")
        num_crossings, load = kernel.crossings(groups)
        if num_crossings > MAX_CROSSINGS or load + num_triangles > MAX_LOAD:
            raise BadOperation(
                f"{num_crossings:,} pairs of pieces would cut each other: too many; use fewer or simpler"
            )
        if self._work + load + num_triangles > MAX_WORK:
            raise BadOperation("all operations together would take too long; start with less detail")
        self._work += load + num_triangles

    def _forget(self, name: str) -> None:
        del self.solids[name], self._pieces[name]

    def _get(self, name: str) -> Solid:
        if name not in self.solids:
            raise BadOperation(f"there is no solid {name!r}; solids: {kernel.listed(self.solids)}")
        return self.solids[name]

    def _refuse_taken(self, name: str) -> None:
        if name in self.solids:
            raise BadOperation(f"there is a solid {name!r} already; delete it or choose another name")
