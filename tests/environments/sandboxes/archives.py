"""Small archives for the sandbox tests, hostile ones included: they are only ever unpacked into temporary folders."""

import hashlib
import io
import json
import tarfile
from typing import Any

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, data: bytes = b"", **changes: Any) -> Entry:
    """One entry of an archive; `changes` are attributes of its TarInfo."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


def folder(name: str, **changes: Any) -> Entry:
    return entry(name, type=tarfile.DIRTYPE, mode=0o755, **changes)


def symlink(name: str, to: str) -> Entry:
    return entry(name, type=tarfile.SYMTYPE, linkname=to)


def hardlink(name: str, to: str) -> Entry:
    return entry(name, type=tarfile.LNKTYPE, linkname=to)


def archive(*entries: Entry) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def docker_archive(*layers: bytes, tags: tuple[str, ...] = ("it:1",)) -> bytes:
    """As `docker save` writes it: one image per tag, all of the same layers."""
    files = [entry(f"{number}/layer.tar", layer) for number, layer in enumerate(layers)]
    names = [info.name for info, _ in files]
    manifest = [{"Config": "c.json", "RepoTags": [tag], "Layers": names} for tag in tags]
    return archive(*files, entry("manifest.json", json.dumps(manifest).encode()))


def oci_archive(*layers: bytes) -> bytes:
    """An OCI image layout with an index in an index, and an attestation beside the image."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **more}

    image = blob(json.dumps({"layers": [blob(layer) for layer in layers]}).encode())
    attestation = blob(b"{}", annotations={"vnd.docker.reference.type": "attestation-manifest"})
    inner = blob(json.dumps({"manifests": [image, attestation]}).encode())
    index = json.dumps({"manifests": [inner]}).encode()
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **blobs}
    return archive(*(entry(name, data) for name, data in files.items()))
