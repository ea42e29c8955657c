"""Reads of a Dockerfile what a sandbox can honour: the base, COPY, WORKDIR, ENV and harmless RUN; refuses the rest.

FROM python:3.13-slim              a plain base: this machine's /usr stands in for it
RUN apt-get install -y git         nothing to do when this machine has it, refused otherwise
WORKDIR /app                       the work dir
COPY data/ ./data/                 files of the work dir; outside of it they are shown read-only
RUN chmod +x run.sh                run before the agent begins
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from posixpath import join, normpath

from assay.records import record
from environments.formats._commands import Need, without_installs
from environments.formats._faults import Unusable, unsupported

DEFAULT_DIR = "/app"
_NAMES = r"(debian|ubuntu|python|buildpack-deps|[\w.-]+/t-bench/(ubuntu|python)[\w.-]*)"
_PLAIN = re.compile(rf"^((docker\.io/)?(library/)?|ghcr\.io/)?{_NAMES}(:[\w.-]+)?(@sha256:\w+)?$")
_IGNORED = ("LABEL", "EXPOSE", "MAINTAINER", "CMD", "STOPSIGNAL", "USER", "SHELL")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")


@record
class Recipe:
    """What a Dockerfile makes. `copies` maps absolute destinations to files; `commands` run in turn."""

    base: str
    work_dir: str = DEFAULT_DIR
    env: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()


@dataclass
class _State:
    files: Sequence[str]
    bare: bool
    base: str = ""
    folder: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    runs: list[tuple[str, str]] = field(default_factory=list)


def is_plain(image: str) -> bool:
    """Whether an image is a plain Debian, Ubuntu or Python, for which this machine's system may stand in."""
    return bool(_PLAIN.match(image)) and not re.search(r"python:2(\.|-|$)|windows|alpine", image)


def check_base(image: str, key: str) -> None:
    """Raises Unusable unless the image is plain."""
    if not is_plain(image):
        raise unsupported(
            "only plain debian, ubuntu and python images have a stand-in here; give the built image as a tar in the "
            "option `images`",
            key,
            image,
        )


def read_dockerfile(text: str, files: Sequence[str], *, bare: bool = True) -> Recipe:
    """What it makes of the context's `files`. Raises Unusable, naming the line that cannot be honoured.

    With `bare` off the image is there already: only WORKDIR and ENV are taken.
    """
    state = _State(files=files, bare=bare)
    for word, rest in _instructions(text):
        _take(state, word, rest)
    if not state.base:
        raise Unusable("a Dockerfile begins with FROM", key="Dockerfile", value=text[:40])
    work_dir = state.folder if state.folder != "/" else DEFAULT_DIR
    commands = tuple(f"cd {shlex.quote(folder)} && {command}" for folder, command in _checked(state, work_dir))
    return Recipe(base=state.base, work_dir=work_dir, env=state.env, copies=state.copies, commands=commands)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(lines))
    for line in filter(str.strip, joined.splitlines()):
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), rest.strip()


def _take(state: _State, word: str, rest: str) -> None:
    """One instruction."""
    if word == "FROM":
        _take_from(state, rest)
    elif word == "WORKDIR":
        state.folder = normpath(join(state.folder, _filled(state, rest.strip("\"'"))))
    elif word in ("ENV", "ARG"):
        _take_variables(state, word, rest)
    elif not state.bare or word in _IGNORED:
        return
    elif word in ("COPY", "ADD"):
        _take_copy(state, word, rest)
    elif word == "RUN":
        state.runs.append((state.folder, rest))
    else:
        raise unsupported("this instruction cannot be honoured here", f"Dockerfile: {word}", rest)


def _take_from(state: _State, rest: str) -> None:
    words = [each for each in rest.split() if not each.startswith("--")]
    if state.base and state.bare:
        raise unsupported("only one FROM can be honoured here", "Dockerfile: FROM", rest)
    state.base = _filled(state, words[0]) if words else ""
    if state.bare:
        check_base(state.base, "Dockerfile: FROM")


def _take_variables(state: _State, word: str, rest: str) -> None:
    home = state.env if word == "ENV" else state.arguments
    name, blank, value = rest.partition(" ")
    if "=" not in name and blank and word == "ENV":
        home[name] = _filled(state, value.strip())
        return
    for each in _words(rest, word):
        name, _, value = each.partition("=")
        home[name] = _filled(state, value)


def _take_copy(state: _State, word: str, rest: str) -> None:
    words = _words(rest.strip("[]").replace('",', '" ') if rest.startswith("[") else rest, word)
    flags = [each for each in words if each.startswith("--")]
    paths = [each for each in words if not each.startswith("--")]
    if any(flag.startswith("--from") for flag in flags) or any("://" in path for path in paths) or "<<" in rest:
        raise unsupported("only files of the task's own folder can be copied", f"Dockerfile: {word}", rest)
    if len(paths) < 2:
        raise Unusable("it needs sources and a destination", key=f"Dockerfile: {word}", value=rest)
    *sources, into = (_filled(state, path) for path in paths)
    is_folder = into.endswith(("/", "/.")) or into in (".", "./") or len(sources) > 1
    target = normpath(join(state.folder, into))
    for source in sources:
        _copy_one(state, source, target, is_folder=is_folder or target == state.folder)


def _copy_one(state: _State, source: str, target: str, *, is_folder: bool) -> None:
    plain = normpath(source.lstrip("/") or ".")
    if plain.startswith(".."):
        raise Unusable("it leads out of the task's folder", key="Dockerfile: COPY", value=source)
    found = {}
    for path in state.files:
        for matched in [parent for parent in _prefixes(path) if plain == "." or _same(parent, plain)][:1]:
            inside = path if plain == "." else str(PurePosixPath(path).relative_to(matched))
            single = inside == "."
            name = PurePosixPath(path).name
            found[(f"{target}/{name}" if is_folder else target) if single else f"{target}/{inside}"] = path
    if not found:
        raise Unusable("the task's folder has no such file", key="Dockerfile: COPY", value=source)
    state.copies.update({normpath(inside): path for inside, path in found.items()})


def _prefixes(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _same(path: str, pattern: str) -> bool:
    """Docker's patterns: a star does not reach into folders."""
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def _checked(state: _State, work_dir: str) -> Iterator[tuple[str, str]]:
    """What has really to be run, with its folder. Raises Unusable."""
    for folder, text in state.runs:
        try:
            command = without_installs(text, writable=(work_dir,), shown=tuple(state.copies))
        except Need as need:
            raise unsupported(str(need), "Dockerfile: RUN", text) from need
        if command and folder != work_dir and not folder.startswith(f"{work_dir}/"):
            raise unsupported(f"it runs outside of the work dir {work_dir}", "Dockerfile: RUN", text)
        if command:
            yield folder, command


def _words(text: str, word: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Unusable(f"cannot be read: {error}", key=f"Dockerfile: {word}", value=text) from error


def _filled(state: _State, text: str) -> str:
    known = {**state.arguments, **state.env}
    return _VARIABLE.sub(lambda m: known.get(m[1] or m[3], m[2] or ""), text)
