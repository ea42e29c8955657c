"""A company's year as one consistent set of figures, drawn from a seed, and what was first reported of it.

    Book: key -> value      "revenue/Water Systems/2023/Q2" -> 41_300_000     (whole euros, multiples of 100,000)
                            "staff/Iberia/2022" -> 1_240      "date/annual_meeting" -> "2024-05-14"

Quarters add up to years, segments and regions to totals. One figure (or a pair, where revenue moved between two
segments) was first reported with another value and restated later: `first` holds the book as it was first reported.
Company names and the last digit of report numbers are divided between the splits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import date, timedelta
from random import Random
from typing import Any

from assay.records import Split, record
from environments.domains._common import side
from environments.domains._record_extraction_text import FIRST_NAMES, LAST_NAMES

STEMS = (
    "Aldmoor", "Bexhall", "Corvane", "Dunmere", "Elvastra", "Fennhold", "Garlund", "Haverix", "Istrano", "Jorvex",
    "Kestrado", "Lumora", "Marwick", "Norvell", "Ostrand", "Pellinor", "Quantis", "Rothmar", "Selvana", "Tarvik",
    "Umbrel", "Valdane", "Wexcombe", "Yarrowby", "Zentara", "Arkendal", "Brisco", "Calder", "Dravento", "Estoril",
    "Falkner", "Grenmark", "Hollis", "Ivermont", "Jaskon", "Kirrane",
)  # fmt: skip
FORMS = ("Group", "Holdings", "Industries", "International", "Systems", "Works")
SEGMENTS = (
    "Industrial Drives", "Water Systems", "Medical Imaging", "Packaging Lines", "Rail Signalling", "Process Sensors",
    "Building Controls", "Marine Pumps", "Specialty Coatings", "Power Storage", "Food Equipment", "Test Benches",
)  # fmt: skip
REGIONS = (
    "Northern Europe", "Iberia", "North America", "East Asia", "South America", "Central Europe", "Middle East",
    "Oceania", "Southern Africa", "South Asia",
)  # fmt: skip
PRODUCTS = (
    "Aquilo", "Brevis", "Candor", "Delphin", "Equinox", "Ferrum", "Gravita", "Helion", "Ionis", "Juno", "Kappa",
    "Limbus", "Meridian", "Nimbus", "Optima", "Pulsar", "Quadra", "Radix", "Solaris", "Tempus",
)  # fmt: skip
TARGETS = (
    "Ambleton Valves", "Birkdale Optics", "Crossfield Robotics", "Denholm Filters", "Eastvale Software",
    "Farrow Bearings", "Glenshaw Castings", "Hartwell Lasers", "Inver Plastics", "Jessop Controls",
)  # fmt: skip
POSTS = ("chief_executive", "chief_financial_officer", "supervisory_chair", "head_of_investor_relations")
SINGLE = ("order_intake", "research_spending", "capital_expenditure")
OPTIONAL: Mapping[str, str] = {
    "order_backlog": "money", "pension_deficit": "money", "credit_line": "money",
    "dividend_payment_date": "date", "next_bond_maturity": "date", "next_site_opening": "date",
    "chief_risk_officer": "text", "works_council_chair": "text", "data_protection_officer": "text",
    "patents_held": "number", "apprentices": "number", "production_sites": "number",
}  # fmt: skip
QUARTERS = ("Q1", "Q2", "Q3", "Q4")
_STEP = 100_000
Book = dict[str, Any]


@record
class Restatement:
    """Which keys were restated, and the sentence that says why."""

    keys: tuple[str, ...]
    reason: str


@record
class Company:
    """`book` is what holds, `first` what was first reported; `stated` are the optional facts its report has."""

    name: str
    year: int
    segments: tuple[str, ...]
    regions: tuple[str, ...]
    products: tuple[str, ...]
    targets: tuple[str, ...]
    stated: tuple[str, ...]
    book: Book
    first: Book
    restatement: Restatement
    peer: "Company | None" = field(default=None)

    @property
    def absent(self) -> tuple[str, ...]:
        return tuple(name for name in OPTIONAL if name not in self.stated)


def draw_company(rng: Random, split: Split, level: int, restated: str) -> Company:
    """A company with a peer in the same businesses; `restated` is `segments`, `regions` or one of `SINGLE`."""
    names = rng.sample([f"{stem} {form}" for stem in side(STEMS, split, "documents") for form in FORMS], 2)
    year = rng.randint(2012, 2024)
    segments = tuple(rng.sample(SEGMENTS, 3 if level == 1 else level + 1 + rng.randint(0, 1)))
    regions = tuple(rng.sample(REGIONS, 3 if level == 1 else rng.randint(3, 5)))
    peer = _one(rng, names[1], year, segments, regions, split, restated)
    return _one(rng, names[0], year, segments, regions, split, restated, peer)


def _one(
    rng: Random,
    name: str,
    year: int,
    segments: tuple[str, ...],
    regions: tuple[str, ...],
    split: Split,
    restated: str,
    peer: Company | None = None,
) -> Company:
    book: Book = {"text/company": name, "id/report": _report_id(rng, name, year, split)}
    _add_segments(book, rng, segments, year)
    _add_regions(book, rng, regions, year)
    for single in SINGLE:
        now = _money(rng, 90, 2400)
        book |= {f"{single}/{year}": now, f"{single}/{year - 1}": _before(rng, now)}
    _add_people_and_dates(book, rng, year)
    products, targets = tuple(rng.sample(PRODUCTS, 4)), tuple(rng.sample(TARGETS, 3))
    _add_launches(book, rng, products, segments, year)
    _add_deals(book, rng, targets, year)
    _add_optional(book, rng, year)
    first, restatement = _restate(book, rng, year, segments, regions, restated)
    stated = tuple(sorted(rng.sample(sorted(OPTIONAL), 6)))
    return Company(
        name=name, year=year, segments=segments, regions=regions, products=products, targets=targets, stated=stated,
        book=book, first=first, restatement=restatement, peer=peer,
    )  # fmt: skip


def _report_id(rng: Random, name: str, year: int, split: Split) -> str:
    """For example `AR-BEX-2023-48213`; even numbers train, odd ones are held out."""
    number = 2 * rng.randint(5_000, 49_999) + (split == "heldout")
    return f"AR-{name[:3].upper()}-{year}-{number:05d}"


def _money(rng: Random, low: int, high: int) -> int:
    return rng.randint(low, high) * _STEP


def _before(rng: Random, now: int, *, grown: bool | None = None) -> int:
    """The year before: some 4 % off at least, so that the two are never taken for one another."""
    up = rng.random() < 0.5 if grown is None else grown
    ratio = rng.uniform(0.75, 0.95) if up else rng.uniform(1.05, 1.2)
    return max(1, round(now * ratio / _STEP)) * _STEP


def _add_segments(book: Book, rng: Random, segments: Sequence[str], year: int) -> None:
    values = iter(rng.sample(range(200, 2400), 4 * len(segments)))
    # Margins keep their order and distance when revenue moves a little.
    margins = rng.sample(range(4, 24, 3), len(segments))
    for segment, margin in zip(segments, margins, strict=True):
        grown = rng.random() < 0.5
        for quarter in QUARTERS:
            now = next(values) * _STEP
            book |= {f"revenue/{segment}/{year}/{quarter}": now}
            book |= {f"revenue/{segment}/{year - 1}/{quarter}": _before(rng, now, grown=grown)}
        for each in (year, year - 1):
            _add_up(book, segment, each)
            profit = book[f"revenue/{segment}/{each}"] * (margin + rng.uniform(-0.4, 0.4)) / 100
            book[f"profit/{segment}/{each}"] = round(profit / _STEP) * _STEP
    for each in (year, year - 1):
        book[f"total_revenue/{each}"] = sum(book[f"revenue/{segment}/{each}"] for segment in segments)


def _add_up(book: Book, segment: str, year: int) -> None:
    book[f"revenue/{segment}/{year}"] = sum(book[f"revenue/{segment}/{year}/{quarter}"] for quarter in QUARTERS)


def _add_regions(book: Book, rng: Random, regions: Sequence[str], year: int) -> None:
    weights = [rng.uniform(1, 3) for _ in regions]
    for each in (year, year - 1):
        left, scale = book[f"total_revenue/{each}"], rng.uniform(0.9, 0.98) if each < year else 1.0
        for i, region in enumerate(regions[1:], 1):
            part = round(book[f"total_revenue/{each}"] * weights[i] * scale / sum(weights) / _STEP) * _STEP
            book[f"region_revenue/{region}/{each}"] = part
            left -= part
        book[f"region_revenue/{regions[0]}/{each}"] = left
    for region in regions:
        staff = rng.randint(310, 6900)
        book |= {f"staff/{region}/{year}": staff, f"staff/{region}/{year - 1}": round(staff * rng.uniform(0.8, 0.94))}
    for each in (year, year - 1):
        book[f"total_staff/{each}"] = sum(book[f"staff/{region}/{each}"] for region in regions)


def _add_people_and_dates(book: Book, rng: Random, year: int) -> None:
    people = rng.sample([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES], len(POSTS))
    book |= {f"person/{post}": person for post, person in zip(POSTS, people, strict=True)}
    book |= {"date/year_end": rng.choice((f"{year}-12-31", f"{year}-09-30", f"{year}-06-30"))}
    book |= {"date/published": _day(rng, year + 1, 2, 3), "date/annual_meeting": _day(rng, year + 1, 4, 7)}


def _day(rng: Random, year: int, first_month: int, last_month: int) -> str:
    start = date(year, first_month, 1)
    return (start + timedelta(days=rng.randrange((date(year, last_month, 28) - start).days))).isoformat()


def _add_launches(book: Book, rng: Random, products: Sequence[str], segments: Sequence[str], year: int) -> None:
    for product, month in zip(products, rng.sample(range(1, 13), len(products)), strict=True):
        book |= {f"launched/{product}": date(year, month, rng.randint(1, 28)).isoformat()}
        book |= {f"segment_of/{product}": rng.choice(segments)}


def _add_deals(book: Book, rng: Random, targets: Sequence[str], year: int) -> None:
    prices = rng.sample(range(31, 900), len(targets))
    for target, month, price in zip(targets, rng.sample(range(1, 13), len(targets)), prices, strict=True):
        book |= {
            f"closed/{target}": date(year, month, rng.randint(1, 28)).isoformat(),
            f"price/{target}": price * _STEP,
        }


def _add_optional(book: Book, rng: Random, year: int) -> None:
    made: dict[str, Callable[[], Any]] = {
        "money": lambda: _money(rng, 55, 3000),
        "date": lambda: _day(rng, year + 1, 3, 11),
        "text": lambda: f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}",
        "number": lambda: rng.randint(21, 899),
    }
    book |= {f"optional/{name}": made[kind]() for name, kind in OPTIONAL.items()}


def _restate(
    book: Book, rng: Random, year: int, segments: Sequence[str], regions: Sequence[str], what: str
) -> tuple[Book, Restatement]:
    """The book as first reported, and what was restated since."""
    first = dict(book)
    if what in SINGLE:
        key = f"{what}/{year}"
        first[key] = _before(rng, book[key])
        return first, Restatement(keys=(key,), reason="A cut-off error was found in the closing entries")
    quarter = rng.choice(QUARTERS)
    if what == "segments":
        one, other = rng.sample(segments, 2)
        keys = [f"revenue/{one}/{year}/{quarter}", f"revenue/{other}/{year}/{quarter}"]
    else:
        one, other = rng.sample(regions, 2)
        keys = [f"region_revenue/{one}/{year}", f"region_revenue/{other}/{year}"]
    moved = max(20, round(min(book[key] for key in keys) * rng.uniform(0.06, 0.18) / _STEP)) * _STEP
    first[keys[0]] += moved
    first[keys[1]] -= moved
    if what == "segments":
        for segment in (one, other):
            _add_up(first, segment, year)
        keys += [f"revenue/{one}/{year}", f"revenue/{other}/{year}"]
    reason = f"Contracts booked under {one} were found to belong to {other} and were reclassified"
    return first, Restatement(keys=tuple(keys), reason=reason)
