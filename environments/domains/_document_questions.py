"""What is asked of a report: fields with their types, the gold values, and the figures each value rests on.

    extraction   profile, segments, launches, deals                records read from one or two sections each
    questions    two_quarters, growth, margin, per_head            values computed from figures that stand apart

`ask` works on any book, so the same question asked of the book as first reported, or of last year's, gives the wrong
answers a careless reader would give. Every question also asks for facts that the report does not state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Any

from assay.records import record
from environments.domains._document_blocks import label_of
from environments.domains._document_company import OPTIONAL, Book, Company

Spec = dict[str, Any]
Picks = Mapping[str, Any]


@record
class Kind:
    """Which sections it needs, and what of them is restated (`segments`, `regions` or a single figure)."""

    sections: tuple[str, ...]
    restated: str


KINDS: Mapping[str, Kind] = {
    "profile": Kind(sections=("about", "management", "calendar", "order_intake", "other"), restated="order_intake"),
    "segments": Kind(sections=("about", "segments", "profits", "other"), restated="segments"),
    "launches": Kind(sections=("about", "products", "research_spending", "other"), restated="research_spending"),
    "deals": Kind(sections=("about", "deals", "capital_expenditure", "other"), restated="capital_expenditure"),
    "two_quarters": Kind(sections=("about", "quarters", "other"), restated="segments"),
    "growth": Kind(sections=("about", "segments", "other"), restated="segments"),
    "margin": Kind(sections=("about", "segments", "profits", "other"), restated="segments"),
    "per_head": Kind(sections=("about", "regions", "staff", "other"), restated="regions"),
}


@record
class Field:
    """One field: its specification, the gold value (None when absent), and the keys it rests on."""

    spec: Spec
    value: Any
    keys: tuple[str, ...]


@record
class Question:
    """`spec`, `gold` and `keys` have the same shape; `keys` are by path."""

    text: str
    spec: Spec
    gold: dict[str, Any]
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)


def draw_picks(kind: str, rng: Random, company: Company) -> dict[str, Any]:
    """What is free in a question: the segment, quarter or region it is about, and the optional facts it asks for."""
    parts = company.restatement.keys[0].split("/")
    others = [segment for segment in company.segments if segment != parts[1]]
    num_absent, num_stated = rng.choice(((1, 1), (1, 2), (2, 1)))
    asked = rng.sample(company.absent, num_absent) + rng.sample(company.stated, num_stated)
    rng.shuffle(asked)
    return {
        "name": parts[1],
        "quarter": parts[3] if len(parts) > 3 else "Q1",
        "other": rng.choice(others),
        "other_quarter": rng.choice(("Q1", "Q2", "Q3", "Q4")),
        "optional": asked,
    }


def ask(kind: str, company: Company, book: Book, picks: Picks) -> Question:
    """The question with the answers that a book gives."""
    text, fields = _ASKED[kind](company, book, picks)
    optional = {name: _optional(company, book, name) for name in picks["optional"]}
    everything = {"report_id": _key(book, "id/report", {"type": "id", "about": "the report's number"}), **fields}
    everything["disclosures"] = optional
    spec, gold, keys = _split(everything)
    return Question(text=text, spec=spec, gold=gold, keys=keys)


def first_book(company: Company) -> Book:
    """As first reported."""
    return company.first


def last_years_book(company: Company) -> Book:
    """Every figure of the year replaced by last year's."""
    now, before = f"/{company.year}", f"/{company.year - 1}"
    return {key: company.book.get(key.replace(now, before), value) for key, value in company.book.items()}


def neighbours_book(company: Company, groups: Sequence[Sequence[str]]) -> Book:
    """Every figure of a segment, region, product, post, ... replaced by that of the next one."""
    following = {name: group[(i + 1) % len(group)] for group in groups for i, name in enumerate(group)}
    return {
        key: company.book.get("/".join(following.get(part, part) for part in key.split("/")), value)
        for key, value in company.book.items()
    }


def json_schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification as a JSON schema for people and models."""
    about = {"description": spec["about"]} if spec.get("about") else {}
    kind = spec["type"]
    if kind == "object":
        inner = {name: json_schema(each) for name, each in spec["fields"].items()}
        return {"type": "object", "properties": inner, **about}
    if kind in ("set", "list"):
        return {"type": "array", "items": json_schema(spec["items"]), **about}
    if kind == "money":
        inner = {"value": {"type": "number"}, "currency": {"const": spec["currency"]}}
        return {"type": ["object", "null"], "properties": inner, **about}
    if kind == "date":
        return {"type": ["string", "null"], "format": "date", **about}
    return {"type": ["number" if kind in ("number", "percent") else "string", "null"], **about}


def said(spec: Mapping[str, Any], gold: Any, scalar: Callable[[Mapping[str, Any], Any], Any] | None = None) -> Any:
    """Gold values as an answer says them; `scalar` changes how one value that is not null is said."""
    if gold is None:
        return None
    if spec["type"] == "object":
        return {name: said(inner, gold[name], scalar) for name, inner in spec["fields"].items()}
    if spec["type"] in ("set", "list"):
        return [said(spec["items"], item, scalar) for item in gold]
    return (scalar or plainly)(spec, gold)


def plainly(spec: Mapping[str, Any], gold: Any) -> Any:
    """A value in the form that the schema asks for."""
    return {"value": gold, "currency": spec["currency"]} if spec["type"] == "money" else gold


def _split(fields: Mapping[str, Any], path: str = "") -> tuple[Spec, dict[str, Any], dict[str, tuple[str, ...]]]:
    """(specification, gold, keys by path) of nested fields."""
    specs: dict[str, Any] = {}
    gold: dict[str, Any] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for name, each in fields.items():
        if isinstance(each, Field):
            specs[name], gold[name], keys[f"{path}{name}"] = each.spec, each.value, each.keys
        else:
            specs[name], gold[name], below = _split(each, f"{path}{name}.")
            keys |= below
    return {"type": "object", "fields": specs}, gold, keys


def _key(book: Book, key: str, spec: Spec) -> Field:
    return Field(spec=spec, value=book[key], keys=(key,))


def _money(about: str = "", currency: str = "EUR", **more: Any) -> Spec:
    return {"type": "money", "currency": currency, "about": about, **more}


def _text(about: str = "") -> Spec:
    return {"type": "text", "about": about}


def _day(about: str = "") -> Spec:
    return {"type": "date", "about": about}


def _percent(about: str) -> Spec:
    """Rounded to a tenth, so what is off by less than that in the last digit still counts."""
    return {"type": "percent", "about": f"{about}, in percent to one decimal", "within": 0.06, "tolerance": 0}


def _record(**fields: Spec) -> Spec:
    return {"type": "object", "fields": fields}


def _optional(company: Company, book: Book, name: str) -> Field:
    kind = OPTIONAL[name]
    spec: Spec = _money() if kind == "money" else {"type": kind}
    if name not in company.stated:
        return Field(spec=spec, value=None, keys=())
    return _key(book, f"optional/{name}", spec)


Asked = tuple[str, dict[str, Any]]


def _profile(company: Company, book: Book, picks: Picks) -> Asked:
    people = ("chief_executive", "chief_financial_officer")
    fields = {
        "company": _key(book, "text/company", _text()),
        "people": {post: _key(book, f"person/{post}", _text()) for post in people},
        "dates": {name: _key(book, f"date/{name}", _day(label_of(name))) for name in ("year_end", "annual_meeting")},
        "order_intake": _key(book, f"order_intake/{company.year}", _money(f"in {company.year}")),
    }
    return f"Fill in the profile of {company.name} for {company.year}.", fields


def _segments(company: Company, book: Book, picks: Picks) -> Asked:
    year = company.year
    rows = [
        {"name": s, "revenue": book[f"revenue/{s}/{year}"], "operating_profit": book[f"profit/{s}/{year}"]}
        for s in company.segments
    ]
    keys = tuple(f"{what}/{s}/{year}" for s in company.segments for what in ("revenue", "profit"))
    spec = {
        "type": "set",
        "about": "all segments, in any order",
        "items": _record(name=_text(), revenue=_money(), operating_profit=_money()),
    }
    text = f"List the segments of {company.name} with revenue and operating profit in {year}."
    return text, {"segments": Field(spec=spec, value=rows, keys=keys)}


def _launches(company: Company, book: Book, picks: Picks) -> Asked:
    products = sorted(company.products, key=lambda product: book[f"launched/{product}"])
    rows = [{"product": p, "launched": book[f"launched/{p}"], "segment": book[f"segment_of/{p}"]} for p in products]
    dated, placed = (tuple(f"{what}/{p}" for p in products) for what in ("launched", "segment_of"))
    items = _record(product=_text(), launched=_day(), segment=_text())
    launches = {"type": "list", "about": "from the earliest to the latest", "items": items}
    active = {"type": "set", "about": "segments that launched something", "items": _text()}
    year = company.year
    fields = {
        "launches": Field(spec=launches, value=rows, keys=dated + placed),
        "active_segments": Field(spec=active, value=sorted({row["segment"] for row in rows}), keys=placed),
        "research_spending": _key(book, f"research_spending/{year}", _money(f"in {year}")),
    }
    return f"List what {company.name} launched in {year}, and what it spent on research.", fields


def _deals(company: Company, book: Book, picks: Picks) -> Asked:
    targets = sorted(company.targets, key=lambda target: book[f"closed/{target}"])
    rows = [{"target": t, "closed": book[f"closed/{t}"], "price": book[f"price/{t}"]} for t in targets]
    keys = tuple(f"{what}/{t}" for t in targets for what in ("closed", "price"))
    items = _record(target=_text(), closed=_day(), price=_money(currency="USD"))
    spec = {"type": "list", "about": "in the order of their closing", "items": items}
    fields = {
        "acquisitions": Field(spec=spec, value=rows, keys=keys),
        "capital_expenditure": _key(book, f"capital_expenditure/{company.year}", _money(f"in {company.year}")),
    }
    return f"List the acquisitions of {company.name} and its capital expenditure in {company.year}.", fields


def _two_quarters(company: Company, book: Book, picks: Picks) -> Asked:
    one = f"revenue/{picks['name']}/{company.year}/{picks['quarter']}"
    two = f"revenue/{picks['other']}/{company.year}/{picks['other_quarter']}"
    names = (f"{picks['name']} in {picks['quarter']}", f"{picks['other']} in {picks['other_quarter']}")
    fields = {
        "first_revenue": _key(book, one, _money(f"revenue of {names[0]}")),
        "second_revenue": _key(book, two, _money(f"revenue of {names[1]}")),
        "combined_revenue": Field(spec=_money("their sum"), value=book[one] + book[two], keys=(one, two)),
    }
    return f"What revenue did {company.name} have with {names[0]} and {names[1]} of {company.year}?", fields


def _growth(company: Company, book: Book, picks: Picks) -> Asked:
    name, year = picks["name"], company.year
    now, before = f"revenue/{name}/{year}", f"revenue/{name}/{year - 1}"
    growth = round(100 * (book[now] / book[before] - 1), 1)
    fields = {
        "revenue": _key(book, now, _money(f"in {year}")),
        "previous_revenue": _key(book, before, _money(f"in {year - 1}")),
        "growth": Field(spec=_percent(f"growth from {year - 1} to {year}"), value=growth, keys=(now, before)),
    }
    return f"How did the revenue of {name} at {company.name} change from {year - 1} to {year}?", fields


def _margin(company: Company, book: Book, picks: Picks) -> Asked:
    year, name = company.year, picks["name"]
    margins = {s: 100 * book[f"profit/{s}/{year}"] / book[f"revenue/{s}/{year}"] for s in company.segments}
    best = max(margins, key=lambda segment: margins[segment])
    pair = (f"revenue/{best}/{year}", f"profit/{best}/{year}")
    margin = Field(spec=_percent("its operating margin"), value=round(margins[best], 1), keys=pair)
    best_spec = _text("the segment with the highest operating profit relative to revenue")
    fields = {
        "best_segment": Field(spec=best_spec, value=best, keys=pair),
        "best_margin": margin,
        "revenue": _key(book, f"revenue/{name}/{year}", _money(f"revenue of {name}")),
        "operating_profit": _key(book, f"profit/{name}/{year}", _money(f"operating profit of {name}")),
    }
    return f"Which segment of {company.name} had the best margin in {year}, and what did {name} earn?", fields


def _per_head(company: Company, book: Book, picks: Picks) -> Asked:
    revenue, staff = f"region_revenue/{picks['name']}/{company.year}", f"staff/{picks['name']}/{company.year}"
    spec = _money("revenue divided by employees", tolerance=0.001)
    fields = {
        "revenue": _key(book, revenue, _money(f"in {company.year}")),
        "employees": _key(book, staff, {"type": "number", "units": ["people"], "about": f"in {company.year}"}),
        "revenue_per_employee": Field(spec=spec, value=round(book[revenue] / book[staff]), keys=(revenue, staff)),
    }
    return f"What revenue per employee did {company.name} have in {picks['name']} in {company.year}?", fields


_ASKED: Mapping[str, Callable[[Company, Book, Picks], Asked]] = {
    "profile": _profile,
    "segments": _segments,
    "launches": _launches,
    "deals": _deals,
    "two_quarters": _two_quarters,
    "growth": _growth,
    "margin": _margin,
    "per_head": _per_head,
}
