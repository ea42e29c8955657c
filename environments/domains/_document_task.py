"""From a recipe (a few numbers and names) to a document with its question; nothing of a document is stored twice.

    recipe --build--> Made(company, question, document, places)

A task whose document is behind tools keeps the recipe and the document's digest only; the document is made again
when an episode opens. A template instance is the combination of level, kind, format, wording and order of sections.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from random import Random
from threading import RLock
from typing import Any

from assay.ids import canonical_json
from assay.records import Split, record
from environments.domains import _document_answers as answers
from environments.domains._common import side
from environments.domains._document_company import Company, draw_company
from environments.domains._document_formats import Document, Format, render
from environments.domains._document_library import Library
from environments.domains._document_questions import KINDS, Question, ask, draw_picks, json_schema
from environments.domains._document_report import CHARS_PER_TOKEN, write_report

NUM_WORDINGS = 3
NUM_ORDERS = 4
TOOLS_FROM_LEVEL = 3
_SHORT_TOKENS = 16_000
_MAKING = RLock()
# The rest of an HTML document is tags.
_TEXT_SHARE = {"html": 0.91}
_RULES = (
    "Amounts are full units (1.2 million is 1200000) and dates are like 2024-05-31. A value the report does not state "
    "for this company is null: a wrong value costs more than a null. Where a figure was restated, the restated one "
    "holds."
)


@record
class Template:
    """One form that reports and questions take."""

    level: int
    kind: str
    form: Format
    wording: int
    order: int

    @property
    def name(self) -> str:
        return f"level{self.level}/{self.kind}/{self.form}/{self.wording}.{self.order}"


@record
class Made:
    """What a recipe gives. `digest` is the SHA-256 of the document's text."""

    company: Company
    picks: Mapping[str, Any]
    question: Question
    document: Document
    places: Mapping[str, Any]
    digest: str


@lru_cache(maxsize=64)
def templates(level: int, kinds: tuple[str, ...], forms: tuple[Format, ...], split: Split) -> tuple[Template, ...]:
    """The template instances of a split; each kind in each format has some."""
    found: list[Template] = []
    for kind, form in product(kinds, forms):
        options = [
            Template(level=level, kind=kind, form=form, wording=wording, order=order)
            for wording, order in product(range(NUM_WORDINGS), range(NUM_ORDERS))
        ]
        found += side(options, split, "documents")
    return tuple(found)


def recipe(template: Template, split: Split, target_tokens: int, seed: int) -> dict[str, Any]:
    """Everything that decides a document and its question, as JSON."""
    return {
        "level": template.level,
        "kind": template.kind,
        "form": template.form,
        "wording": template.wording,
        "order": template.order,
        "split": split,
        "target_tokens": target_tokens,
        "seed": seed,
    }


def build(recipe: Mapping[str, Any]) -> Made:
    """The document and its question, kept for the next call. Raises KeyError for a recipe that lacks something."""
    text = canonical_json(dict(recipe))
    # Episodes of one group open at the same moment: one makes the document, the others wait for it.
    with _MAKING:
        return _short(text) if recipe["target_tokens"] <= _SHORT_TOKENS else _long(text)


def library(recipe: Mapping[str, Any]) -> Library:
    """The document of a recipe behind its tools, shared by the episodes on it."""
    with _MAKING:
        return _library(canonical_json(dict(recipe)))


@lru_cache(maxsize=4)
def _library(text: str) -> Library:
    return Library(build(json.loads(text)).document)


@lru_cache(maxsize=512)
def _short(text: str) -> Made:
    return _built(text)


@lru_cache(maxsize=2)
def _long(text: str) -> Made:
    return _built(text)


def _built(text: str) -> Made:
    given = json.loads(text)
    rng, kind = Random(given["seed"]), KINDS[given["kind"]]
    company = draw_company(rng, given["split"], given["level"], kind.restated)
    picks = draw_picks(given["kind"], rng, company)
    question = ask(given["kind"], company, company.book, picks)
    sections = write_report(
        rng,
        company,
        level=given["level"],
        needed=kind.sections,
        wording=given["wording"],
        order=given["order"],
        target_chars=round(given["target_tokens"] * CHARS_PER_TOKEN * _TEXT_SHARE.get(given["form"], 1.0)),
    )
    document = render(sections, given["form"])
    return Made(
        company=company,
        picks=picks,
        question=question,
        document=document,
        places=answers.places_of(question, document),
        digest=hashlib.sha256(document.text().encode()).hexdigest(),
    )


def instructions(question: Question, *, paged: bool, behind_tools: bool) -> str:
    """What is asked, the form of the answer, and what counts."""
    where = "the report, which you can search and read with the tools" if behind_tools else "the report below"
    cite = '{"section": "7", "page": 3}' if paged else '{"section": "7"}'
    cited = (
        "for each field that is not null, by its name or path (disclosures.patents_held), the section"
        f"{' and page' if paged else ''} of every figure it rests on"
    )
    schema = json.dumps(json_schema(question.spec), separators=(",", ":"))
    form = f'{{"values": {{...}}, "evidence": {{"report_id": [{cite}], ...}}}}'
    lines = [
        f"{question.text} Use {where}.",
        f"The values follow this JSON schema:\n{schema}",
        _RULES,
        f"Cite {cited}. Answer with {form}.",
    ]
    return "\n".join([*lines, *(["Submit the answer with the tool submit."] if behind_tools else [])])


def problems(made: Made, shown: str, hidden: Mapping[str, Any], *, behind_tools: bool) -> list[str]:
    """What is wrong with a task made from this recipe, in words."""
    found = []
    if not behind_tools and made.document.text() not in shown:
        found.append("the prompt does not hold the document")
    if behind_tools and hidden["digest"] != made.digest:
        found.append("the recipe gives another document than the one the task was made with")
    if hidden["expected"] != made.question.gold:
        found.append("the gold values are not those of the report's figures")
    if hidden["places"] != made.places:
        found.append("the places are not those where the figures stand")
    for path, known in hidden["places"].items():
        if not all(known["groups"]):
            found.append(f"a figure of {path!r} stands nowhere in the document")
    return found + _unfindable(made.document, hidden["places"])


def _unfindable(document: Document, places: Mapping[str, Any]) -> list[str]:
    """Cited places that the document does not have."""
    known = {(part.label, part.title): part.text for part in document.parts}
    cited = [place for each in places.values() for group in each["groups"] for place in group]
    return [
        f"there is no section {place['section']} {place['title']!r} on page {place.get('page')}"
        for place in cited
        if not _is_there(place, known.get((place["section"], place["title"])), paged=document.num_pages > 0)
    ]


def _is_there(place: Mapping[str, Any], text: str | None, *, paged: bool) -> bool:
    if text is None:
        return False
    return f"[page {place.get('page')}]" in text if paged else "page" not in place
