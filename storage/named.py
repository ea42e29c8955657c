"""Named queries: one `.sql` file each in `queries/`, whose first line `-- ...` is the question in words."""

from dataclasses import dataclass
from pathlib import Path

from assay.errors import ConfigurationError, unknown_choice

FOLDER = Path(__file__).resolve().parent / "queries"


@dataclass(frozen=True, slots=True)
class Query:
    """A question with a name; `sql` includes the title as its first line."""

    name: str
    title: str
    sql: str


def queries() -> list[Query]:
    """All named queries, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.sql"))]


def load(name: str) -> Query:
    """One query; ConfigurationError lists the known names."""
    known = {path.stem: path for path in FOLDER.glob("*.sql")}
    if name not in known:
        raise unknown_choice("query", name, known)
    return _read(known[name])


def _read(path: Path) -> Query:
    sql = path.read_text(encoding="utf-8").strip()
    title = sql.partition("\n")[0]
    if not title.startswith("-- "):
        raise ConfigurationError(f"{path} must start with `-- ` and the question in words; it starts with {title!r}.")
    return Query(path.stem, title.removeprefix("-- ").strip(), sql)
