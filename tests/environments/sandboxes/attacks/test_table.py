"""The table of attacks in docs/security.md and the tests of this folder are the same list."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[3] / "docs" / "security.md"


def test_every_row_names_a_test_and_every_test_has_a_row() -> None:
    rows = re.findall(r"^\|.*`(test_\w+\.py::test_\w+)` \|.*\|$", DOCUMENT.read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == {
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_*.py")
        if path != Path(__file__)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_row_says_what_defends_and_where_the_control_is() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if "::test_" in line]
    assert rows
    assert all(len([cell for cell in line.split("|") if cell.strip()]) == 4 for line in rows)
