"""Shell lines of foreign tasks: which of them are done already here, which are harmless, and which cannot be done.

apt-get update && apt-get install -y git && mkdir -p out   ->   mkdir -p out      (where this machine has git)
pip install numpy                                          ->   Need: ... has no numpy
"""

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

_PACKAGES = Path("/var/lib/dpkg/info")
PYTHON_PACKAGES = {"pytest", "pytest-json-ctrf", "pip", "setuptools", "wheel", "uv"}
# Debian's names for what a sandbox shows anyway, whatever this machine calls its Python.
_SHOWN = {"python3", "python3-minimal", "python-is-python3", "python3-pip", "python3-venv", "python3-pytest", "bash"}
_JOINTS = ("&&", ";", "||", "\n")
_RUN = {
    "mkdir", "touch", "chmod", "cp", "mv", "rm", "ln", "echo", "printf", "cat", "sed", "head", "tail", "seq", "sort",
    "tr", "cut", "wc", "true", "test", "[", "cd", "export", "set", "tee", "find",
    "python3", "python", "bash", "sh", "gcc",
    "cc", "make", "git", "tar", "gzip", "gunzip", "unzip", "xargs", "date", "base64", "awk", "grep", "install",
}  # fmt: skip
_FETCHERS = {"curl", "wget", "npm", "npx", "yarn", "pnpm", "cargo", "go", "conda", "gem", "docker", "rustup", "uvx"}
_CACHES = re.compile(r"^/(var/(lib/apt|cache|log)|root/\.cache|tmp)(/|$)")
_FREE = re.compile(r"^/(dev/(null|stdout|stderr)$|tmp(/|$)|usr/|bin/|opt/python/)")
_ASSIGNED = re.compile(r"^\w+=")
_FLAGS_WITH_VALUE = {"-i", "--index-url", "--extra-index-url", "-t", "--target-release", "-o", "-c", "--python", "-p"}
_CALL = re.compile(
    r"(?:^|&&|\|\||[;|(`]|\bthen\b|\bif\b|\bdo\b|\bsudo\b|!)\s*(?:sudo\s+)?(?:\w+=\S*\s+)*"
    r"(apt-get|apt|pip3?|python3? -m pip|uvx?|curl|wget|npm|npx|yarn|pnpm|cargo|conda|gem|docker|rustup|git)"
    r"\s+([^\n;&|)`]*)"
)


class Need(Exception):
    """Something that is not to be had here, in words."""


def has_package(name: str) -> bool:
    """Whether this machine's system, which a sandbox shows, has a Debian package."""
    name = name.split("=")[0].split(":")[0]
    return name in _SHOWN or (_PACKAGES / f"{name}.list").exists() or any(_PACKAGES.glob(f"{name}:*.list"))


def without_installs(text: str, *, writable: Sequence[str], shown: Sequence[str]) -> str:
    """What of a RUN line is left to do; raises Need for what can't be. `shown` are files it may read anywhere."""
    if text.startswith("[") or "<<" in text:
        raise Need("only plain shell lines can be run here")
    kept: list[str] = []
    for joint, words in _segments(text):
        if not words or _is_done(words):
            continue
        for simple in _piped(words):
            _check(simple, writable, shown)
        kept += [joint if kept else "", " ".join(words)]
    return " ".join(kept).strip()


def first_need(script: str) -> str:
    """The first command of a script that needs more than is here, with the reason; empty when there is none."""
    for line in _lines(script):
        for match in _CALL.finditer(line):
            try:
                words = shlex.split(f"{match[1]} {match[2]}", comments=True)
            except ValueError:
                words = f"{match[1]} {match[2]}".split()
            try:
                _check_install(words)
            except Need as need:
                return f"{' '.join(words)[:80]!r}: {need}"
    return ""


def _lines(script: str) -> list[str]:
    text = re.sub(r"\\\n", " ", script)
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def _segments(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands as words with their quotes, each with what joins it to the one before."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    joint, words = "", list[str]()
    try:
        for word in lexer:
            if word in _JOINTS:
                yield joint, words
                joint, words = word, []
            else:
                words.append(word)
    except ValueError as error:
        raise Need(f"the shell line cannot be read ({error})") from error
    yield joint, words


def _piped(words: Sequence[str]) -> Iterator[list[str]]:
    simple: list[str] = []
    for word in [*words, "|"]:
        if word == "|":
            yield simple
            simple = []
        else:
            simple.append(word)


def _is_done(words: Sequence[str]) -> bool:
    """Whether a command changes nothing that matters here. Raises Need for an install that is not to be had."""
    plain = [word.strip("'\"") for word in words]
    if plain[:2] == ["set", "-eux"] or plain[0] in ("true", ":"):
        return True
    if plain[0] == "rm":
        return all(_CACHES.match(word) for word in plain[1:] if not word.startswith("-"))
    return _check_install([word for word in plain if not _ASSIGNED.match(word) or word.count("==")])


def _check_install(words: Sequence[str]) -> bool:
    """Whether it is an install (or the like) of what is here; raises Need when it is one of what is not."""
    words = [word for word in words if word != "sudo"]
    if words[:3] in (["python3", "-m", "pip"], ["python", "-m", "pip"]):
        words = words[2:]
    if words[:2] == ["uv", "pip"]:
        words = words[1:]
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name in ("apt-get", "apt"):
        return _check_apt(rest)
    if name in ("pip", "pip3"):
        return _check_pip(rest)
    if name == "uv":
        return _check_uv(rest)
    if name == "uvx":
        return _check_uv(["run", *rest])
    if name == "git" and rest[:1] in (["clone"], ["fetch"], ["pull"]):
        raise Need("a sandbox has no network")
    if name in ("curl", "wget"):
        return _check_fetch(" ".join(rest))
    if name in _FETCHERS:
        raise Need("a sandbox has no network")
    return False


def _check_apt(rest: Sequence[str]) -> bool:
    action, *packages = _plain(rest) or [""]
    if action in ("install", "build-dep") and (missing := [each for each in packages if not has_package(each)]):
        raise Need(f"this machine has no {', '.join(missing)} and a sandbox has no network")
    return True


def _check_pip(rest: Sequence[str]) -> bool:
    action, *packages = _plain(rest) or [""]
    if action != "install":
        return True
    if any(word in ("-r", "--requirement", "-e", "--editable", ".") for word in rest):
        raise Need("packages of a requirements file or project cannot be installed: a sandbox has no network")
    _check_python(packages)
    return True


def _check_uv(rest: Sequence[str]) -> bool:
    """uv and uvx themselves have a stand-in; what they bring along has not."""
    action = next(iter(_plain(rest)), "")
    if action in ("add", "tool"):
        _check_python([each for each in _plain(rest)[1:] if each not in ("install", "run")])
    if action in ("run", "tool", ""):
        _check_python(_values(rest, ("--with", "-w")))
    return True


def _check_python(packages: Sequence[str]) -> None:
    names = [re.split(r"[=<>~!\[; ]", each)[0].lower() for each in packages]
    if missing := [name for name in names if name not in PYTHON_PACKAGES]:
        raise Need(f"Python packages {', '.join(missing)} are not here and a sandbox has no network")


def _check_fetch(rest: str) -> bool:
    hosts = re.findall(r"https?://([^/\s\"':]+)", rest)
    if all(host in ("localhost", "127.0.0.1", "0.0.0.0", "astral.sh") for host in hosts) and (hosts or "$" not in rest):
        return True
    raise Need("a sandbox has no network")


def _values(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    spread = [part for word in words for part in (word.split("=", 1) if word.startswith("--with=") else [word])]
    return [value for flag, value in itertools.pairwise(spread) if flag in flags]


def _plain(words: Sequence[str]) -> list[str]:
    """Words that are no flags nor a flag's value."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _FLAGS_WITH_VALUE
        else:
            kept.append(word)
    return kept


def _check(words: Sequence[str], writable: Sequence[str], shown: Sequence[str]) -> None:
    plain = [word.strip("'\"") for word in words if not _ASSIGNED.match(word)]
    if plain and plain[0] not in _RUN:
        raise Need(f"{plain[0]!r} is not one of the commands that are run here")
    for word in plain[1:]:
        path = word.lstrip("<>&")
        if path.startswith("/") and " " not in path and not _reachable(path, writable, shown):
            raise Need(f"{path!r} lies outside of the work dir {', '.join(writable)}, and the rest is read-only here")


def _reachable(path: str, writable: Sequence[str], shown: Sequence[str]) -> bool:
    below = any(path == top or path.startswith(f"{top}/") for top in writable)
    return below or path in shown or bool(_FREE.match(path))
