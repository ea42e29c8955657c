"""Folders import only what the design allows, heavy libraries have one home, flow files shadow no module."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "assay": set(),
    "environments": {"assay"},
    "storage": {"assay"},
    "rollouts": {"assay", "environments"},
    "training": {"assay", "environments"},
    "quality": {"assay", "environments", "rollouts"},
    "tasks": {"assay", "environments", "storage", "quality", "rollouts", "training"},
    "flows": {"assay", "tasks"},
    "console": {"assay", "environments", "storage", "quality", "rollouts", "training", "tasks", "flows"},
}
HOMES = {
    "prefect": ("tasks/", "flows/", "console/server.py"),
    "torch": ("assay/processor.py", "training/", "rollouts/engines/transformers.py", "rollouts/engines/_"),
    "nemo": ("training/backends/",),
    "boto3": ("storage/backends/s3.py",),
    "duckdb": ("storage/catalog.py",),
    "great_expectations": ("quality/expectations.py",),
    "vllm": ("rollouts/engines/vllm.py", "rollouts/engines/_vllm"),
}


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("folder", ALLOWED)
def test_a_folder_imports_only_the_folders_below_it(folder: str) -> None:
    files = sources(folder)
    assert files
    for path in files:
        ours = {name.split(".")[0] for name in imported(path)} & set(ALLOWED)
        extra = ours - ALLOWED[folder] - {folder}
        assert not extra, f"{path.relative_to(ROOT)} imports {sorted(extra)}"


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_is_imported_only_at_its_home(library: str) -> None:
    for folder in ALLOWED:
        for path in sources(folder):
            if library in {name.split(".")[0] for name in imported(path)}:
                where = str(path.relative_to(ROOT))
                assert where.startswith(HOMES[library]), f"{where} imports {library}"


def test_no_flow_file_is_named_like_a_package_or_a_standard_module() -> None:
    for path in sources("flows"):
        if path.name == "__init__.py":
            continue
        assert path.stem not in ALLOWED
        assert path.stem not in sys.stdlib_module_names
        assert "_" in path.stem, f"{path.name}: name flow files verb_noun.py"


def test_flows_hold_no_types_because_a_path_entrypoint_loads_them_under_another_name() -> None:
    for path in sources("flows"):
        classes = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        assert not classes, f"{path.name} defines {classes}"
