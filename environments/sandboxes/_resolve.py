"""From a spec to what a supervisor is asked for: capabilities checked, sources found, digests taken."""

import asyncio
import itertools
import os
import posixpath
from collections.abc import Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from assay.errors import SandboxError
from assay.ids import content_hash
from assay.records import record
from environments.sandboxes import _images
from environments.sandboxes.base import Provenance, SandboxSpec, needed, require

_TAKEN = ("/proc", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/tmp")


@record
class Resolved:
    """A spec whose sources are folders of this machine. `place` is what the supervisor is told, as plain data."""

    spec: SandboxSpec
    place: dict[str, Any]
    provenance: Provenance

    @classmethod
    def plain(cls, backend: str, version: str) -> "Resolved":
        """The spec that asks for nothing."""
        return _resolved(SandboxSpec(), backend, version, Path())


async def resolve(spec: SandboxSpec, backend: str, version: str, can: Set[str], cache: Path) -> Resolved:
    """Raises SandboxUnsupported, or SandboxError for a source that cannot be used."""
    require(backend, can, needed(spec) | ({"image"} if spec.image else set()))
    _check_places(spec)
    if spec.image or spec.layers or spec.mounts:
        return await asyncio.to_thread(_resolved, spec, backend, version, cache)
    return _resolved(spec, backend, version, cache)


def _resolved(spec: SandboxSpec, backend: str, version: str, cache: Path) -> Resolved:
    image = _images.resolve(spec.image, cache) if spec.image else None
    layers = [_images.resolve(source, cache) for source in spec.layers]
    mounts = {inside: _images.resolve(source, cache) for inside, source in spec.mounts.items()}
    place = {
        "image": image.path if image else "",
        "layers": [layer.path for layer in layers],
        "mounts": {inside: layer.path for inside, layer in mounts.items()},
        "writable": list(spec.writable),
        "work_dir": spec.work_dir,
        "limits": asdict(spec.limits),
    }
    provenance = Provenance(
        backend=backend,
        version=version,
        image_digest=image.digest if image else "",
        layer_digests=tuple(layer.digest for layer in layers),
        spec_hash=_spec_hash(spec, image, layers, mounts),
    )
    return Resolved(spec=spec, place=place, provenance=provenance)


def _spec_hash(spec: SandboxSpec, image: Any, layers: Any, mounts: Any) -> str:
    files = {path: text if isinstance(text, str) else text.hex() for path, text in spec.files.items()}
    content = asdict(replace(spec, files=files, labels={}, mounts={}, layers=(), image=""))
    digests = [image.digest if image else "", [layer.digest for layer in layers]]
    return content_hash([content, digests, {inside: layer.digest for inside, layer in mounts.items()}])


def _check_places(spec: SandboxSpec) -> None:
    """Where something is shown must be a path of its own."""
    for path in (spec.work_dir, *spec.mounts, *spec.writable):
        plain = posixpath.normpath(path) == path and path.startswith("/") and path != "/" and "\0" not in path
        taken = [place for place in _TAKEN if path == place or (path.startswith(f"{place}/") and not spec.image)]
        if not plain or taken:
            raise SandboxError(
                f"{path!r} cannot be a work dir, mount or writable folder: give an absolute path without '.' or '..' "
                f"outside of {', '.join(_TAKEN)}."
            )
    for one, other in itertools.combinations([spec.work_dir, *spec.mounts, *spec.writable], 2):
        if os.path.commonpath([one, other]) in (one, other) and not {one, other} <= spec.mounts.keys():
            raise SandboxError(
                f"{one!r} and {other!r} lie in each other; the work dir, mounts and writable folders must lie apart."
            )
