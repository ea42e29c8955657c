"""pytest and what it needs, as files for a verifying sandbox, which otherwise shows the standard library only.

They come from the distributions that Assay itself runs with, and are compiled once per process.
"""

import importlib.metadata
import py_compile
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from assay.errors import ConfigurationError

_DISTRIBUTIONS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
# pytest colours Python and diffs; the hundreds of other languages would only cost room.
_LEXERS = {f"pygments/lexers/{name}.py" for name in ("__init__", "_mapping", "diff", "python")}


@lru_cache(maxsize=1)
def packages() -> dict[str, bytes]:
    """Path below one folder for `sys.path` -> content, about 400 files and 5 MB.

    Raises ConfigurationError when pytest is not installed beside Assay.
    """
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for path, source in _sources():
            files[path] = source.read_bytes()
            files[_cached(path)] = _compiled(source, Path(scratch, "module.pyc"))
    return files


def metadata() -> dict[str, bytes]:
    """What tells the names and versions of `packages`, for pytest when it is started as a program."""
    versions = {name: _distribution(name).version for name in _DISTRIBUTIONS}
    return {
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
        for name, version in versions.items()
    }


def _sources() -> Iterator[tuple[str, Path]]:
    for name in _DISTRIBUTIONS:
        for file in _distribution(name).files or ():
            path = file.as_posix()
            if path.endswith(".py") and not path.startswith("..") and _needed(path):
                yield path, Path(str(file.locate()))


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigurationError(
            f"Test suites are verified with pytest, but {name!r} is not installed beside Assay; "
            "install it with `pip install 'assay[suites]'`."
        ) from error


def _needed(path: str) -> bool:
    return not path.startswith("pygments/lexers/") or path in _LEXERS


def _cached(path: str) -> str:
    folder, _, name = path.rpartition("/")
    tag = sys.implementation.cache_tag
    return f"{folder + '/' if folder else ''}__pycache__/{name.removesuffix('.py')}.{tag}.pyc"


def _compiled(source: Path, scratch: Path) -> bytes:
    """Bytecode that is used without a look at the source's time, which is another one in the sandbox."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), cfile=str(scratch), dfile=source.name, doraise=True, invalidation_mode=mode)
    return scratch.read_bytes()
