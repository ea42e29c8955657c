"""Environments for what Assay is compared with: made on first use, beside Assay's own, from pinned requirements."""

import subprocess
import sys
from pathlib import Path

from assay.errors import ConfigurationError

HERE = Path(__file__).resolve().parent


def ensure_venv(name: str, requirements: str, *first: str) -> Path:
    """The Python of `.venv-NAME`, which has what the file `requirements` names; `first` is installed before the rest.

    Raises ConfigurationError when it cannot be made.
    """
    venv, wanted = HERE.parent / f".venv-{name}", HERE / requirements
    python, done = venv / "bin" / "python", venv / ".done"
    if done.is_file() and done.read_text() == wanted.read_text():
        return python
    sys.stderr.write(f"Installing {wanted.name} into {venv} (once, a few minutes) ...\n")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "--progress-bar", "on"]
    steps = [[sys.executable, "-m", "venv", str(venv)], *([*pip, package] for package in first)]
    try:
        for step in [*steps, [*pip, "-r", str(wanted)]]:
            subprocess.run(step, check=True)
        done.write_text(wanted.read_text())
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(f"{wanted.name} could not be installed into {venv}: {error}. See above.") from error
    return python
