"""`assay new-domain` writes domains that are sound before any edit, and refuses to overwrite anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import ConfigurationError
from console.new_domain import class_name, contents, write

PYTHON_KINDS = ("qa", "tool", "repair")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_a_new_domain_passes_its_own_test_before_any_edit(kind: str, tmp_path: Path) -> None:
    write("fresh_start", kind, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fresh_start.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_what_is_written_is_tidy(kind: str, tmp_path: Path) -> None:
    write("tidy", kind, tmp_path)
    config = str(ROOT / "pyproject.toml")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", config, "--ignore", "I001,S101", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Invoice", "two words", "class", "../up", ""])
def test_a_name_that_python_cannot_import_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="invoice_totals"):
        write(name, "qa", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("precious")
    with pytest.raises(ConfigurationError, match="exists already"):
        write("mine", "qa", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    assert (tmp_path / "mine.py").read_text() == "precious"


def test_an_unknown_kind_is_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"qa.*repair"):
        write("mine", "quiz", tmp_path)


def test_names_of_classes_follow_from_names_of_modules() -> None:
    assert class_name("invoice_totals") == "InvoiceTotals"
    assert "class InvoiceTotals(Domain):" in contents("invoice_totals", "qa")["invoice_totals.py"]
