"""Single values as a model writes them, and when two are the same: numbers with units, dates, ids, names.

    "EUR 1.2 million" | {"value": 1.2, "unit": "million", "currency": "EUR"} | "1,200,000 €"  -> 1,200,000 EUR
    "14 March 2024"   | "March 14, 2024" | "14.03.2024"                                       -> 2024-03-14

What cannot be read, or can be read in two ways ("03/04/2024", "1,5 million"), is no value and counts as wrong.
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from assay.records import record
from environments.domains._common import plain

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_MAX_CHARS = 120
_MAX_MAGNITUDE = 30
_NUMBER = re.compile(r"(?<![\d.,])[+-]?(\d{1,3}([, ])\d{3}(\2\d{3})*|\d{1,30})(\.\d{1,30})?(?![\d.,])")
_CURRENCIES = {"€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR"} | {
    "$": "USD", "usd": "USD", "us$": "USD", "dollar": "USD", "dollars": "USD", "gbp": "GBP", "£": "GBP", "chf": "CHF",
}  # fmt: skip
_SCALES = {
    **dict.fromkeys(("thousand", "thousands", "k"), 3),
    **dict.fromkeys(("million", "millions", "m", "mn", "mio"), 6),
    **dict.fromkeys(("billion", "billions", "bn"), 9),
}
_PERCENT = ("%", "percent", "pct")
_PEOPLE = ("people", "employees", "persons", "staff")
_NOTHING = {"", "n/a", "none", "null", "not found", "not stated", "not available", "unknown"}
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)? ([a-z]{3,9})\.?,? (\d{4})")
_MONTH_FIRST = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})")
_ISO = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_DOTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


@record
class Amount:
    """A number in full units with what was said of its unit: a currency, `percent`, `people`, or nothing."""

    value: Decimal
    unit: str = ""


def nothing(value: Any) -> bool:
    """Whether a value says "not found": null, blank, a word for it, nothing in a list, or only nulls in an object."""
    if isinstance(value, str):
        return len(value) < _MAX_CHARS and plain(value).rstrip(".") in _NOTHING
    if isinstance(value, Mapping) and "value" in value:
        return value["value"] is None
    if isinstance(value, (Mapping, list)):
        return all(each is None for each in (value.values() if isinstance(value, Mapping) else value))
    return value is None


def same(spec: Mapping[str, Any], found: Any, gold: Any) -> bool:
    """Whether a value equals the gold one under its specification (`type`, and for numbers unit and tolerance).

    >>> same({"type": "money", "currency": "EUR"}, "EUR 1.2 million", 1_200_000)
    True
    >>> same({"type": "money", "currency": "EUR"}, "1.2 million", 1_200_000)
    False
    >>> same({"type": "date"}, "14 March 2024", "2024-03-14")
    True
    """
    kind = spec["type"]
    if kind in ("money", "percent", "number"):
        return _same_amount(spec, found, Decimal(str(gold)))
    if kind == "date":
        return (day := read_date(found)) is not None and day == read_date(gold)
    if not isinstance(found, str) or len(found) > _MAX_CHARS:
        return False
    return exact(found) == exact(gold) if kind == "id" else plain(found) == plain(gold)


def exact(text: str) -> str:
    """An id as it is compared: every character counts but blanks around it."""
    return unicodedata.normalize("NFKC", text).strip()


def _same_amount(spec: Mapping[str, Any], found: Any, gold: Decimal) -> bool:
    amount = read_amount(found)
    if amount is None or amount.unit not in _units(spec):
        return False
    within = max(Decimal(str(spec.get("within", 0))), abs(gold) * Decimal(str(spec.get("tolerance", "0.000001"))))
    return abs(amount.value - gold) <= within


def _units(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What may be said of the unit; money must name its currency."""
    if spec["type"] == "money":
        return (spec["currency"],)
    return ("", "percent") if spec["type"] == "percent" else ("", *spec.get("units", ()))


def read_amount(value: Any) -> Amount | None:
    """A number, a text with a number and units, or an object of `value`, `unit` and `currency`; else None."""
    if isinstance(value, Mapping):
        if not set(value) <= {"value", "unit", "currency"} or not all(_simple(part) for part in value.values()):
            return None
        said = " ".join(str(value[name]) for name in ("value", "unit", "currency") if value.get(name) is not None)
        return _read_text(said) if "value" in value else None
    return _read_text(str(value)) if _simple(value) else None


def _simple(value: Any) -> bool:
    """Whether it can be read at all: no truth value, and nothing too large to be written out."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str, type(None))):
        return False
    if isinstance(value, str):
        return len(value) <= _MAX_CHARS
    return value is None or abs(value) < 10**_MAX_MAGNITUDE  # false for NaN too


def _read_text(text: str) -> Amount | None:
    said = _plain_number(plain(text).replace("\u2212", "-"))
    numbers = list(_NUMBER.finditer(said))
    if len(numbers) != 1:
        return None
    start, end = numbers[0].span()
    words = re.findall(r"us ?\$|[€$£%]|[^\s€$£%]+", f"{said[:start]} {said[end:]}".replace("us dollar", "dollar"))
    power, unit = _units_said(words)
    number = Decimal(numbers[0].group().replace(",", "").replace(" ", ""))
    return None if unit is None else Amount(value=number.scaleb(power), unit=unit)


def _plain_number(text: str) -> str:
    """Scientific notation at the start written out, as JSON numbers may have it."""
    match = re.match(r"[+-]?\d{1,30}(\.\d{1,30})?e[+-]?\d{1,3}(?=\s|\Z)", text)
    if not match or abs(Decimal(match.group()).adjusted()) > _MAX_MAGNITUDE:
        return text
    return f"{Decimal(match.group()):f}{text[match.end() :]}"


def _units_said(words: list[str]) -> tuple[int, str | None]:
    """(power of ten, unit); the unit is None when a word is unknown or a unit is said twice in different ways."""
    powers = {_SCALES[word] for word in words if word in _SCALES}
    units = {unit for word in words if (unit := _unit(word.replace(" ", "")))}
    known = all(word in _SCALES or _unit(word.replace(" ", "")) for word in words)
    if not known or len(powers) > 1 or len(units) > 1:
        return 0, None
    return max(powers, default=0), next(iter(units), "")


def _unit(word: str) -> str:
    if word in _PERCENT:
        return "percent"
    return "people" if word in _PEOPLE else _CURRENCIES.get(word, "")


def read_date(value: Any) -> date | None:
    """A day from ISO, `14 March 2024`, `March 14, 2024`, `14.03.2024`, or slashes that read one way only."""
    if not isinstance(value, str) or len(value) > _MAX_CHARS:
        return None
    said = plain(value)
    if match := _ISO.fullmatch(said):
        return _day(*match.groups())
    if match := _DAY_FIRST.fullmatch(said):
        day, month, year = match.groups()
        return _day(year, _month(month), day)
    if match := _MONTH_FIRST.fullmatch(said):
        month, day, year = match.groups()
        return _day(year, _month(month), day)
    if match := _DOTS.fullmatch(said):
        return _day(*reversed(match.groups()))
    return _slashes(said)


def _slashes(said: str) -> date | None:
    match = _SLASHES.fullmatch(said)
    if not match:
        return None
    first, second, year = match.groups()
    readings = {_day(year, second, first), _day(year, first, second)} - {None}
    return readings.pop() if len(readings) == 1 else None


def _day(year: Any, month: Any, day: Any) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _month(name: str) -> int:
    """1 to 12, or 0 for no month."""
    names = [month.casefold() for month in MONTHS]
    return next((i for i, month in enumerate(names, 1) if name in (month, month[:3])), 0)
