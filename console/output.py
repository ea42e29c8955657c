"""How the console speaks: data to stdout, talk to stderr, and untrusted text made harmless on its way to a terminal."""

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

# Escape sequences first (their letters would otherwise stay behind), then every control left but newline and tab,
# then the bidirectional overrides with which a text can pretend to be another one.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS...: titles, clipboard
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: object) -> str:
    """`text` without escape sequences, control characters (newline and tab stay) and bidirectional overrides.

    >>> clean("a\\x1b[31mred\\x1b[0m\\rb")
    'aredb'
    """
    return _CONTROLS.sub("", _SEQUENCES.sub("", str(text)))


def one_line(text: object, width: int = 0) -> str:
    """`text` cleaned, on one line, cut with an ellipsis to `width` terminal cells (0: not cut)."""
    flat = " ".join(clean(text).split())
    if width and cell_len(flat) > width:
        flat = set_cell_size(flat, width - 1).rstrip() + "…"
    return flat


def say(line: str = "") -> None:
    """One line of talk."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def put(text: str) -> None:
    """Data."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def put_json(value: Any) -> None:
    """Data as JSON; escapes leave no control character for a terminal to act on."""
    put(json.dumps(_finite(value), indent=2, default=str, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, cell_width: int = 0) -> str:
    """Aligned columns, numbers to the right. `cell_width` cuts each cell to so many terminal cells (0: not cut)."""
    raw = [list(row) for row in rows]
    texts = [[one_line(cell_text(value), cell_width) for value in row] for row in raw]
    widths = [max(map(cell_len, column)) for column in zip(headers, *texts, strict=True)]
    right = [
        bool(raw) and all(value is None or _is_number(value) for value in column) for column in _columns(headers, raw)
    ]
    lines = [_row(headers, widths, right), _row(["-" * width for width in widths], widths, right)]
    return "\n".join(lines + [_row(row, widths, right) for row in texts])


def cell_text(value: object) -> str:
    """One value as a person reads it: floats to four digits, nested values as JSON, null as empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _columns(headers: Sequence[str], rows: list[list[object]]) -> list[list[object]]:
    return [[row[i] for row in rows] for i in range(len(headers))]


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        " " * (width - cell_len(cell)) + cell if to_right else cell + " " * (width - cell_len(cell))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def clock(seconds: float) -> str:
    """`2:05`, or `1:02:05` from an hour."""
    total = max(0, round(seconds))
    hours, rest = divmod(total, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def counted(counts: dict[str, int]) -> str:
    """`sandbox 6, deadline 3`, largest first."""
    return ", ".join(f"{one_line(k)} {n}" for k, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
