"""Answers with a known standing: the right ones in several forms, and the mistakes a careless reader makes."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from environments.domains import _document_questions as questions
from environments.domains._document_blocks import say_date
from environments.domains._document_company import OPTIONAL, POSTS, SINGLE, Company
from environments.domains._document_formats import Document, Place
from environments.domains._document_questions import Picks, Question, said

Answer = dict[str, Any]


def places_of(question: Question, document: Document) -> dict[str, Any]:
    """By path, what `evidence_share` checks against: for each figure its true places, and those of older values."""
    return {
        path: {
            "groups": [document.facts.get(key, []) for key in keys],
            "related": [place for key in keys for place in document.stale.get(key, [])],
        }
        for path, keys in question.keys.items()
        if keys
    }


def evidence(places: Mapping[str, Any], *, last: bool = False, named: bool = False) -> dict[str, list[Any]]:
    """One true place for each figure: the first, or the `last`; by section number, or `named` with the title."""
    cited: dict[str, list[Any]] = {}
    for path, known in places.items():
        chosen = [group[-1 if last else 0] for group in known["groups"] if group]
        told = [_told(place, named=named) for place in chosen]
        cited[path] = [place for i, place in enumerate(told) if place not in told[:i]]
    return cited


def _told(place: Place, *, named: bool) -> dict[str, Any]:
    section = f"{place['section']}: {place['title']}" if named else place["section"]
    return {"section": section} | ({"page": place["page"]} if "page" in place else {})


def right(question: Question, places: Mapping[str, Any]) -> Answer:
    """The oracle's answer."""
    return {"values": said(question.spec, question.gold), "evidence": evidence(places)}


def nulls(question: Question) -> Answer:
    """Nothing found."""
    return {"values": _blank(question.spec), "evidence": {}}


def equivalent(question: Question, places: Mapping[str, Any]) -> list[Answer]:
    """Other units and number forms, other dates, sets in another order, other true places, nulls left out."""
    spec, gold, cited = question.spec, question.gold, evidence(places)
    return [
        {"values": said(spec, gold, _in_words), "evidence": cited},
        {"values": said(spec, gold, _in_thousands), "evidence": cited},
        {"values": _reordered(spec, said(spec, gold)), "evidence": cited},
        {"values": said(spec, gold), "evidence": evidence(places, last=True, named=True)},
        {"values": _without_nulls(said(spec, gold)), "evidence": {path: each[::-1] for path, each in cited.items()}},
    ]


def wrong(
    kind: str, company: Company, picks: Picks, places: Mapping[str, Any], labels: Sequence[Place]
) -> list[Answer]:
    """Unrestated, last year's, a neighbour's, off by 1000, wrong or no currency, invented, badly cited, and more."""
    question = questions.ask(kind, company, company.book, picks)
    spec, gold, cited = question.spec, question.gold, evidence(places)
    groups = (company.segments, company.regions, company.products, company.targets, POSTS, SINGLE)
    books = (
        questions.first_book(company),
        questions.last_years_book(company),
        questions.neighbours_book(company, groups),
    )
    values = [said(spec, questions.ask(kind, company, book, picks).gold) for book in books]
    values += [said(spec, gold, change) for change in (_times_1000, _other_currency, _no_currency)]
    values += [_invented(company, said(spec, gold)), {**said(spec, gold), "note": "see above"}]
    values += [{**said(spec, gold), "report_id": None}, list(gold)]
    bad = [_misplaced(places, labels)]
    spread = [_told(place, named=False) for place in labels]
    return [
        *({"values": each, "evidence": cited} for each in values),
        {"values": said(spec, gold), "evidence": dict.fromkeys(cited, bad)},
        {"values": said(spec, gold), "evidence": dict.fromkeys(cited, spread)},
        {"values": said(spec, gold), "evidence": {}},
        all_wrong(question),
    ]


def ladder(question: Question, places: Mapping[str, Any]) -> list[Answer]:
    """From nearly right to nearly nothing: at each step an omission stands above a wrong value."""
    spec, gold, cited = question.spec, question.gold, evidence(places)
    whole, none = said(spec, gold), _blank(spec)
    made = [
        {**whole, "report_id": None},
        {**whole, "report_id": "AR-0000"},
        {**whole, "report_id": None, "disclosures": none["disclosures"]},
        {**whole, "report_id": "AR-0000", "disclosures": none["disclosures"]},
        {**none, "report_id": gold["report_id"], "disclosures": {**none["disclosures"], **_one_wrong(gold)}},
    ]
    return [{"values": values, "evidence": cited} for values in made]


def _one_wrong(gold: Mapping[str, Any]) -> dict[str, Any]:
    """A wrong value for one of the facts that are stated."""
    return {next(name for name, value in gold["disclosures"].items() if value is not None): "Nobody & Sons"}


def all_wrong(question: Question) -> Answer:
    """Every field filled in, none of them right."""
    return {"values": _spoilt(question.spec), "evidence": {}}


def _spoilt(spec: Mapping[str, Any]) -> Any:
    if spec["type"] == "object":
        return {name: _spoilt(inner) for name, inner in spec["fields"].items()}
    if spec["type"] in ("set", "list"):
        return [_spoilt(spec["items"])] * 9
    return 7 if spec["type"] in ("money", "number", "percent") else "Nobody & Sons"


def _blank(spec: Mapping[str, Any]) -> Any:
    if spec["type"] != "object":
        return None
    return {name: _blank(inner) for name, inner in spec["fields"].items()}


def _in_words(spec: Mapping[str, Any], gold: Any) -> Any:
    if spec["type"] == "money":
        return f"{spec['currency']} {Decimal(gold) / 10**6:,f} million"
    if spec["type"] == "percent":
        return f"{gold} %"
    if spec["type"] == "number":
        return f"{gold:,}"
    return say_date(gold) if spec["type"] == "date" else gold.upper() if spec["type"] == "text" else gold


def _in_thousands(spec: Mapping[str, Any], gold: Any) -> Any:
    if spec["type"] == "money":
        return {"value": gold / 1000, "unit": "thousand", "currency": spec["currency"]}
    return say_date(gold, 1) if spec["type"] == "date" else gold


def _times_1000(spec: Mapping[str, Any], gold: Any) -> Any:
    value = questions.plainly(spec, gold)
    return {**value, "value": gold * 1000} if spec["type"] == "money" else value


def _other_currency(spec: Mapping[str, Any], gold: Any) -> Any:
    value = questions.plainly(spec, gold)
    return {**value, "currency": "GBP"} if spec["type"] == "money" else value


def _no_currency(spec: Mapping[str, Any], gold: Any) -> Any:
    return gold


def _reordered(spec: Mapping[str, Any], values: Any) -> Any:
    """Keys and sets backwards; lists keep their order."""
    if spec["type"] == "object" and isinstance(values, Mapping):
        return {name: _reordered(spec["fields"][name], values[name]) for name in reversed(list(values))}
    return values[::-1] if spec["type"] == "set" else values


def _without_nulls(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {name: _without_nulls(each) for name, each in values.items() if each is not None}


def _invented(company: Company, values: dict[str, Any]) -> dict[str, Any]:
    """What the report does not state, filled in with what it may say of another company."""
    book = (company.peer or company).book
    told = values["disclosures"]
    made = {name: book[f"optional/{name}"] for name, value in told.items() if value is None}
    as_money = {n: {"value": v, "currency": "EUR"} if OPTIONAL[n] == "money" else v for n, v in made.items()}
    return {**values, "disclosures": {**told, **as_money}}


def _misplaced(places: Mapping[str, Any], labels: Sequence[Place]) -> dict[str, Any]:
    """A section (and page) of the document where none of the figures ever stood."""
    taken = {place["section"] for known in places.values() for group in known["groups"] for place in group}
    taken |= {place["section"] for known in places.values() for place in known["related"]}
    free = next(place for place in labels if place["section"] not in taken)
    return _told(free, named=False)
