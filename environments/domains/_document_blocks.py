"""What reports are made of, and how their figures are said."""

from dataclasses import field
from datetime import date

from assay.records import record
from environments.domains._document_values import MONTHS

UNITS = ("million", "thousand", "full")


@record
class Block:
    """A piece that stays on one page. `rows` of a table have the header first; `text` is then its caption."""

    text: str
    rows: tuple[tuple[str, ...], ...] = ()
    facts: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    footnote: bool = False


@record
class Section:
    """`label` is a number, or `Note 4`."""

    title: str
    blocks: tuple[Block, ...]
    label: str = field(default="")


def say_money(value: int, unit: str, currency: str = "EUR") -> str:
    """For example `EUR 41.3 million`; whole units when `unit` is `full`. Exact for multiples of 100,000."""
    return f"{currency} {bare(value, unit)}{'' if unit == 'full' else f' {unit}'}"


def bare(value: int, unit: str) -> str:
    """The number without its unit."""
    if unit == "million":
        return f"{value / 1e6:,.1f}"
    return f"{value // 1000:,}" if unit == "thousand" else f"{value:,}"


def say_date(iso: str, style: int = 0) -> str:
    """`14 March 2024`, `March 14, 2024` or `14.03.2024`."""
    day = date.fromisoformat(iso)
    month = MONTHS[day.month - 1]
    return (f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}", f"{day:%d.%m.%Y}")[style % 3]


def label_of(name: str) -> str:
    """`order_backlog` in words."""
    return name.replace("_", " ")


def num_chars(section: Section) -> int:
    """Roughly what it takes as text."""
    return (
        len(section.title)
        + 8
        + sum(len(b.text) + 2 + sum(len(c) + 3 for r in b.rows for c in r) for b in section.blocks)
    )
