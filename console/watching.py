"""`assay inspect --watch`: inspect again whenever a file of the domains is saved.

Each inspection is a process of its own: it sees the files as they are now, and a broken one ends only itself.
"""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.registry import HOMES
from console.output import say

POLL_S = 0.3


def watch(domains: Sequence[str], *, num: int, seed: int, sandbox: str) -> None:
    """Runs until Ctrl-C."""
    options = ["--num", str(num), "--seed", str(seed), "--sandbox", sandbox]
    command = [sys.executable, "-m", "console.cli", "inspect", *domains, *options]
    seen: dict[Path, float] = {}
    try:
        while True:
            now = stamps(domains)
            if now != seen:
                seen = now
                started = time.monotonic()
                code = subprocess.run(command, check=False).returncode
                say(
                    f"--- {'all is well' if code == 0 else 'somebody must act'}, {time.monotonic() - started:.1f} s; "
                    f"watching {len(seen)} files, Ctrl-C ends"
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        say("")


def stamps(domains: Sequence[str]) -> dict[Path, float]:
    """When each file of the domains was last changed."""
    found = {}
    for path in {file for name in domains or [""] for file in _files(name)}:
        try:
            found[path] = path.stat().st_mtime
        except OSError:  # between two writes of an editor it may be away
            found[path] = 0.0
    return found


def _files(name: str) -> Iterator[Path]:
    """The files that decide what a domain is: its module and its private neighbours, or its folder."""
    if name and Path(name).is_dir():
        yield from (path for path in Path(name).rglob("*") if path.is_file())
        return
    module, _, _ = name.replace(":", ".").rpartition(".") if "." in name or ":" in name else ("", "", "")
    if module:
        spec = importlib.util.find_spec(module)
        if spec and spec.origin:
            yield Path(spec.origin)
        return
    home = importlib.util.find_spec(HOMES["domain"])
    for folder in (home.submodule_search_locations or ()) if home else ():
        yield from Path(folder).glob("*.py")
