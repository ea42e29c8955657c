"""Trees of a person's own clones: a commit, with patches applied, as a folder that never changes.

Only `git` reads the clone, with neither its hooks nor this machine's settings; patches that lead out are refused by it.
"""

import io
import os
import re
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from assay.ids import content_hash
from assay.settings import settings
from environments.formats._faults import Unusable, unsupported
from environments.formats._folder import Entry, entry, move_into_place

_GIT_S = 120
_MAX_TREE = 1 << 30
_SETUP = re.compile(r"install_requires\s*=\s*\[\s*[\"']")
_SETUP_CFG = re.compile(r"(?m)^install_requires\s*=\s*(\S|\n\s+\S)")


def check_clone(repo: str, path: str) -> None:
    """Raises Unusable when there is no clone."""
    if not Path(path).is_dir() or _git(path, "rev-parse", "--git-dir").returncode != 0:
        raise Unusable("give a git clone or bare repository in the option `repos`", key=f"repos.{repo}", value=path)


@lru_cache(maxsize=4096)
def check_commit(path: str, commit: str) -> None:
    """Raises Unusable when the clone has no such commit."""
    if _git(path, "cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
        raise unsupported("the clone has no such commit; fetch it", "base_commit", commit)


@lru_cache(maxsize=4096)
def needed_packages(path: str, commit: str) -> str:
    """What the project says it needs besides Python, as the first line found; empty when nothing."""
    pyproject = _shown(path, commit, "pyproject.toml")
    try:
        said = tomllib.loads(pyproject)
    except (tomllib.TOMLDecodeError, RecursionError):
        said = {}
    project = said.get("project", {})
    poetry = (
        said.get("tool", {}).get("poetry", {}).get("dependencies", {}) if isinstance(said.get("tool"), dict) else {}
    )
    wanted = list(project.get("dependencies", [])) if isinstance(project, dict) else []
    wanted += [name for name in poetry if name != "python"]
    wanted += ["install_requires of setup.py"] if _SETUP.search(_shown(path, commit, "setup.py")) else []
    wanted += ["install_requires of setup.cfg"] if _SETUP_CFG.search(_shown(path, commit, "setup.cfg")) else []
    lines = _shown(path, commit, "requirements.txt").splitlines()
    wanted += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("#", "-"))]
    return str(wanted[0]) if wanted else ""


@lru_cache(maxsize=4096)
def touched(patch: str, key: str) -> tuple[str, ...]:
    """The paths a patch changes. Raises Unusable when it is no patch or leads out of the tree."""
    done = subprocess.run(
        ["git", "apply", "--numstat", "-z"], input=patch.encode("utf-8", "replace"), capture_output=True, env=_env(),
        timeout=_GIT_S, cwd="/", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unusable(
            f"is not a patch: {done.stderr.decode(errors='replace').strip()[:200]}", key=key, value=patch[:40]
        )
    found: list[str] = []
    for line in done.stdout.decode(errors="replace").split("\0"):
        found += [line.split("\t")[-1]] if line.split("\t")[-1] else []
    if bad := [path for path in found if path.startswith(("/", ".git/")) or ".." in path.split("/")]:
        raise Unusable("a patch may not lead out of the tree", key=key, value=bad[0])
    # A renamed file is told by its new name only; the old one stands in the patch.
    return tuple(sorted({*found, *re.findall(r"(?m)^rename from (.+)$", patch)}))


def tree(path: str, commit: str, patches: Sequence[str] = (), without: Sequence[str] = ()) -> Path:
    """The folder of a commit after patches, without some paths. Raises Unusable when a patch does not apply."""
    key = content_hash([os.path.realpath(path), commit, list(patches), sorted(without)])[:32]
    home = settings().home_dir / "formats"
    target = home / f"tree-{key}"
    if target.is_dir():
        return target
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".new-") as scratch:
        made = Path(scratch, "files")
        made.mkdir()
        _extract(path, commit, made)
        for patch in patches:
            _apply(made, patch)
        for each in without:
            (made / each).unlink(missing_ok=True)
        move_into_place(made, target)
    return target


def contents(folder: Path, paths: Sequence[str]) -> dict[str, bytes | None]:
    """Regular files of a tree by path; None for what is not there."""
    return {
        path: (folder / path).read_bytes() if (folder / path).is_file() and not (folder / path).is_symlink() else None
        for path in paths
    }


@lru_cache(maxsize=16)
def files_of(folder: Path) -> Mapping[str, Entry]:
    """The regular files of a tree, links left out."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top, name)
            if not path.is_symlink() and path.is_file():
                found[path.relative_to(folder).as_posix()] = entry(path)
    return found


def _extract(path: str, commit: str, target: Path) -> None:
    done = _git(path, "archive", "--format=tar", commit)
    if done.returncode != 0:
        raise Unusable("git cannot write this commit's tree", key="base_commit", value=commit)
    try:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            if sum(member.size for member in archive) > _MAX_TREE:
                raise Unusable(f"a tree may have at most {_MAX_TREE:,} bytes", key="base_commit", value=commit)
            archive.extractall(target, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise Unusable(f"its tree cannot be written: {error}", key="base_commit", value=commit) from error


def _apply(folder: Path, patch: str) -> None:
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode("utf-8", "replace"), capture_output=True,
        env=_env(folder), timeout=_GIT_S, cwd=folder, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:300]
        raise Unusable(f"it does not apply to the base commit: {said}", key="patch", value=patch[:40])


def _shown(path: str, commit: str, file: str) -> str:
    done = _git(path, "show", f"{commit}:{file}")
    return done.stdout[: 1 << 20].decode(errors="replace") if done.returncode == 0 else ""


def _git(path: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-C", path, *words]
    try:
        return subprocess.run(command, capture_output=True, env=_env(), timeout=_GIT_S, check=False)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise Unusable(f"git does not run: {error}", key="repos", value=path) from error


def _env(folder: Path | None = None) -> dict[str, str]:
    """Nothing of a person's git settings; a scratch folder is never part of a repository above it."""
    ceiling = {"GIT_CEILING_DIRECTORIES": str(folder.parent)} if folder else {}
    plain = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    return {"PATH": os.environ.get("PATH", os.defpath), **plain, **ceiling}
