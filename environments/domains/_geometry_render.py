"""Pictures of a model without a display: triangles drawn by a small rasteriser into a z-buffer, shaded flat.

    bodies -> triangles [T, 3, 3] -> camera space -> pixels of every triangle at once -> nearest one wins -> PNG

Equal bodies give equal bytes. Each body has a colour of its own, in the order of their names.
"""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.records import Image
from environments.domains._geometry_kernel import BadOperation

WIDTH, HEIGHT = 320, 240
# Where the viewer stands, seen from the model, and which way is up in the picture.
VIEWS: Mapping[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "iso": ((1, -1, 0.8), (0, 0, 1)),
    "front": ((0, -1, 0), (0, 0, 1)),
    "back": ((0, 1, 0), (0, 0, 1)),
    "left": ((-1, 0, 0), (0, 0, 1)),
    "right": ((1, 0, 0), (0, 0, 1)),
    "top": ((0, 0, 1), (0, 1, 0)),
    "bottom": ((0, 0, -1), (0, 1, 0)),
}
_COLOURS = np.array([[96, 140, 200], [220, 150, 80], [110, 180, 110], [190, 110, 160], [170, 170, 90], [120, 190, 190]])
_BACKGROUND = 245
_AMBIENT = 0.35
_LIGHT = np.array([0.35, 0.5, 0.8])  # right, up and towards the viewer
_DISTANCE = 3.0  # of the viewer in perspective, in radii of the model
_MARGIN = 1.08
_MOST = 30_000_000  # pixels of triangles in one picture: some seconds
_CHUNK = 400_000  # pixels of triangles handled at once

Array = Any


def render(bodies: Mapping[str, Any], view: str = "iso", projection: str = "orthographic") -> Image:
    """A PNG of 320 x 240 pixels; the model fills it. Without bodies it is blank.

    Raises BadOperation for far too many large triangles.
    """
    canvas = np.full((HEIGHT, WIDTH, 3), _BACKGROUND, dtype=np.uint8)
    if bodies:
        triangles, owners = _triangles(bodies)
        seen = _seen(triangles, view)
        shades = _shades(seen, owners)
        nearest = _nearest(_projected(seen, projection))
        drawn = nearest >= 0
        canvas[drawn] = shades[nearest[drawn]]
    return Image(data=_png(canvas))


def _triangles(bodies: Mapping[str, Any]) -> tuple[Array, Array]:
    """Corners [T, 3, 3] and the number of each triangle's body [T]."""
    corners, owners = [], []
    for number, name in enumerate(sorted(bodies)):
        mesh = bodies[name].to_mesh64()
        corners.append(np.asarray(mesh.vert_properties)[:, :3][np.asarray(mesh.tri_verts, dtype=np.int64)])
        owners.append(np.full(len(corners[-1]), number))
    return np.concatenate(corners), np.concatenate(owners)


def _seen(triangles: Array, view: str) -> Array:
    """In camera space: x right, y up, z towards the viewer, the model in a ball of radius 1 around 0."""
    towards, up = (np.asarray(v, dtype=float) for v in VIEWS[view])
    towards = towards / np.linalg.norm(towards)
    right = np.cross(up, towards)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(towards, right), towards])
    points = triangles.reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    radius = max(float(np.linalg.norm(high - low)) / 2, 1e-9)
    return (triangles - (low + high) / 2) @ axes.T / radius


def _shades(seen: Array, owners: Array) -> Array:
    """Colours [T, 3] of flat faces in a light that comes with the viewer."""
    normals = np.cross(seen[:, 1] - seen[:, 0], seen[:, 2] - seen[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    lit = np.clip(normals @ (_LIGHT / np.linalg.norm(_LIGHT)), 0.0, 1.0)
    strength = _AMBIENT + (1 - _AMBIENT) * lit
    return np.rint(_COLOURS[owners % len(_COLOURS)] * strength[:, None]).astype(np.uint8)


def _projected(seen: Array, projection: str) -> Array:
    """[T, 3, 3]: pixel x, pixel y and depth (larger is nearer)."""
    depth = seen[..., 2]
    scale = HEIGHT / 2 / _MARGIN
    if projection == "perspective":
        factor = np.sqrt(_DISTANCE**2 - 1) / (_DISTANCE - depth)
        # 1 / distance is linear over the picture, depth is not.
        depth = 1 / (_DISTANCE - depth)
    else:
        factor = np.ones_like(depth)
    across, up = seen[..., 0] * factor * scale, seen[..., 1] * factor * scale
    return np.stack([WIDTH / 2 + across, HEIGHT / 2 - up, depth], axis=-1)


def _nearest(projected: Array) -> Array:
    """[HEIGHT, WIDTH]: the number of the triangle seen at each pixel's centre, -1 where there is none."""
    best = np.full(HEIGHT * WIDTH, -np.inf)
    owner = np.full(HEIGHT * WIDTH, -1)
    flat = projected[..., :2]
    low = np.clip(np.ceil(flat.min(axis=1) - 0.5), 0, [WIDTH, HEIGHT]).astype(np.int64)
    high = np.clip(np.floor(flat.max(axis=1) - 0.5), -1, [WIDTH - 1, HEIGHT - 1]).astype(np.int64)
    spans = np.maximum(high - low + 1, 0)
    counts = spans[:, 0] * spans[:, 1]
    if (num := int(counts.sum())) > _MOST:
        raise BadOperation(
            f"the picture would take {num:,} pixels, hidden ones included; at most {_MOST:,} are allowed"
        )
    groups = (np.cumsum(counts) - 1) // _CHUNK
    for group in np.unique(groups[counts > 0]):
        chosen = np.flatnonzero((groups == group) & (counts > 0))
        _draw(projected, chosen, low, spans, counts, best, owner)
    return owner.reshape(HEIGHT, WIDTH)


def _draw(projected: Array, chosen: Array, low: Array, spans: Array, counts: Array, best: Array, owner: Array) -> None:
    """Update `best` depth and `owner` [pixels] with the chosen triangles; among equally near ones the last wins."""
    which = np.repeat(chosen, counts[chosen])
    starts = np.repeat(np.cumsum(counts[chosen]) - counts[chosen], counts[chosen])
    row, column = np.divmod(np.arange(len(which)) - starts, spans[which, 0])
    x, y = low[which, 0] + column, low[which, 1] + row
    inside, depth = _depth(projected[which], x + 0.5, y + 0.5)
    pixel, depth, which = (y * WIDTH + x)[inside], depth[inside], which[inside]
    order = np.lexsort((which, depth))
    pixel, depth, which = pixel[order], depth[order], which[order]
    nearer = depth > best[pixel]
    # With repeated indices the last assignment stays, which is the nearest.
    best[pixel[nearer]], owner[pixel[nearer]] = depth[nearer], which[nearer]


def _depth(corners: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Whether each point lies in its triangle [P], and the depth there (0 for triangles seen edge-on)."""
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (corners[:, i].T for i in range(3))
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    safe = np.where(np.abs(area) > 1e-12, area, np.inf)
    second = ((x - ax) * (cy - ay) - (y - ay) * (cx - ax)) / safe
    third = ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / safe
    first = 1 - second - third
    inside = (np.abs(area) > 1e-12) & (first >= 0) & (second >= 0) & (third >= 0)
    return inside, first * az + second * bz + third * cz


def _png(canvas: Array) -> bytes:
    from PIL import Image as Picture

    out = io.BytesIO()
    Picture.fromarray(canvas).save(out, format="PNG")
    return out.getvalue()
