"""What the tests of foreign tasks find in a sandbox besides the system: pytest, and stand-ins for installers.

The usual test script installs curl, uv and pytest before it runs pytest. A sandbox has no network, so /opt/assay has
pytest and commands of these names that install nothing: what they would bring is there, or the task was left out.
"""

from functools import lru_cache
from pathlib import Path

from environments.formats._folder import keep
from environments.verifying._packages import metadata, packages

INSIDE = "/opt/assay"
HOME = "/root"
PYTHONPATH = f"{INSIDE}/packages"

_NOTHING = "#!/bin/sh\n# A sandbox has no network: what a task may ask for is here already.\nexit 0\n"
_CURL = """#!/bin/sh
case "$*" in
  *astral.sh*) mkdir -p "$HOME/.local/bin" && : > "$HOME/.local/bin/env" && echo true ;;
  *) exec /usr/bin/NAME "$@" ;;
esac
"""
_UV = """#!/bin/sh
action=$1
[ $# -gt 0 ] && shift
case "$action" in
  run) exec "$(dirname "$0")/uvx" "$@" ;;
  tool) [ "$1" = run ] && shift && exec "$(dirname "$0")/uvx" "$@" ;;
  venv)
    folder=.venv
    for word in "$@"; do case "$word" in -*) ;; *) folder=$word ;; esac; done
    mkdir -p "$folder/bin" && : > "$folder/bin/activate" ;;
esac
exit 0
"""
_UVX = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --with|-w|--python|-p|--from|--index-url|--directory|--project) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
exec "$@"
"""
_PYTEST = """#!/bin/sh
n=$#
skip=
while [ "$n" -gt 0 ]; do
  word=$1
  shift
  n=$((n - 1))
  if [ -n "$skip" ]; then skip=; continue; fi
  case "$word" in
    --ctrf) skip=1 ;;
    --ctrf=*) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec python3 -B -c 'import sys; sys.path.pop(0); import pytest; sys.exit(pytest.main())' \\
  -p no:cacheprovider "$@"
"""


_REPORT = """import json, os

_FILE = os.open(os.environ["ASSAY_REPORT"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _tell(**line):
    os.write(_FILE, (json.dumps(line) + "\\n").encode())


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        _tell(id=report.nodeid, outcome=report.outcome)


_tell(ready=True)
"""


@lru_cache(maxsize=4)
def _files(*, stand_ins: bool) -> dict[str, bytes]:
    made = {f"packages/{path}": data for path, data in (packages() | metadata()).items()}
    made["packages/assay_report.py"] = _REPORT.encode()
    scripts = {"pytest": _PYTEST}
    if stand_ins:
        scripts |= dict.fromkeys(("apt-get", "apt", "pip", "pip3"), _NOTHING)
        scripts |= {name: _CURL.replace("NAME", name) for name in ("curl", "wget")}
        scripts |= {"uv": _UV, "uvx": _UVX}
    return made | {f"bin/{name}": text.encode() for name, text in scripts.items()}


def kit(*, stand_ins: bool) -> Path:
    """The folder to mount at `INSIDE`. Raises ConfigurationError when pytest is not installed beside Assay."""
    return keep(_files(stand_ins=stand_ins))
