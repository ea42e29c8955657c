"""Document analysis: reports whose figures hold together, true places, reading by tools, and rewards."""

import asyncio
import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from assay.errors import EnvironmentAuthorError
from assay.ids import content_hash
from assay.records import TaskSpec, Verdict
from environments.base import Outcome, Script, play
from environments.domains import _document_task as making
from environments.domains._document_answers import all_wrong
from environments.domains._document_blocks import UNITS, bare, say_date
from environments.domains._document_company import OPTIONAL, QUARTERS
from environments.domains._document_formats import FORMATS, Document, Format, pdf_bytes
from environments.domains._document_library import Library
from environments.domains._document_questions import KINDS
from environments.domains._document_task import Made, build
from environments.domains.document_analysis import DocumentAnalysis
from environments.tools import say_call
from tests.environments.domains.conftest import NoPlace

NOWHERE = NoPlace()


def domain(**options: Any) -> DocumentAnalysis:
    return DocumentAnalysis(DocumentAnalysis.Config(**options))


def one(level: int, form: Format, kind: str, *, tokens: int = 1_000, index: int = 0, split: Any = "train") -> TaskSpec:
    made = domain(levels=(level,), formats=(form,), kinds=(kind,), target_tokens=(tokens,) * 3)
    return made.make_task(split, index, 0)


async def judged(task: TaskSpec, script: Script) -> Verdict:
    made = domain()
    return await made.verify(task, await play(made, task, script, NOWHERE), NOWHERE)


def forms_of(value: Any) -> list[str]:
    """How a figure may be written."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        return [say_date(value, style) for style in range(3)]
    if isinstance(value, int):
        return [f"{value:,}", *(bare(value, unit) for unit in UNITS if value % 100_000 == 0)]
    return [str(value)]


def stands(text: str, value: Any) -> bool:
    """Whether a figure stands in a text in any form, not as a part of another number."""
    flat = " ".join(re.sub(r"</?\w[^>]*>|\|", " ", text).split())
    return any(re.search(rf"(?<![\d,.]){re.escape(form)}(?!\d|[,.]\d)", flat) for form in forms_of(value))


def assert_figures_stand_where_they_are_said_to(made: Made) -> None:
    texts = {part.label: part.text for part in made.document.parts}
    for book, known in ((made.company.book, made.document.facts), (made.company.first, made.document.stale)):
        assert known
        for key, place in ((key, place) for key, places in known.items() for place in places):
            text = texts[place["section"]]
            if made.document.num_pages:
                text = text.partition(f"[page {place['page']}]")[2].partition("[page ")[0]
            assert stands(text, book[key]), (key, place)


@pytest.mark.parametrize(("level", "form"), product((1, 2, 3), FORMATS))
def test_every_figure_stands_where_it_is_said_to(level: int, form: Format) -> None:
    for kind in ("profile", "margin"):
        assert_figures_stand_where_they_are_said_to(build(one(level, form, kind).hidden["recipe"]))


def test_a_companys_figures_hold_together() -> None:
    for kind in ("segments", "per_head", "deals"):
        company = build(one(3, "text", kind).hidden["recipe"]).company
        book, year = company.book, company.year
        for each in (year, year - 1):
            for s in company.segments:
                assert book[f"revenue/{s}/{each}"] == sum(book[f"revenue/{s}/{each}/{q}"] for q in QUARTERS)
            by_segment = sum(book[f"revenue/{s}/{each}"] for s in company.segments)
            by_region = sum(book[f"region_revenue/{r}/{each}"] for r in company.regions)
            assert book[f"total_revenue/{each}"] == by_segment == by_region
            assert book[f"total_staff/{each}"] == sum(book[f"staff/{r}/{each}"] for r in company.regions)
        changed = {key for key, value in book.items() if company.first[key] != value}
        assert changed == set(company.restatement.keys) != set()


def test_what_is_absent_is_said_of_another_company_at_most() -> None:
    made = build(one(2, "text", "profile").hidden["recipe"])
    peer = made.company.peer
    assert peer is not None
    own = "\n".join(part.text for part in made.document.parts if peer.name not in part.title).lower()
    theirs = "\n".join(part.text for part in made.document.parts if peer.name in part.title).lower()
    for name in OPTIONAL:
        label = name.replace("_", " ")
        assert (label in own) is (name in made.company.stated), name
        assert (label in " ".join(theirs.split())) is (name not in made.company.stated), name


def test_a_restated_figure_is_at_a_true_place_only_in_the_note() -> None:
    made = build(one(3, "text", "two_quarters").hidden["recipe"])
    for key in made.company.restatement.keys:
        (place,) = made.document.facts[key]
        assert place["section"].startswith("Note ")
        assert place["title"] in ("Restatement", "Restated figures", "Corrections")
        assert made.document.stale[key]


def test_a_pdf_is_the_same_bytes_every_time_and_has_no_id_of_its_own() -> None:
    lines = [["1 About", "", "Revenue was EUR 4.2 million."], ["Page two."]]
    data = pdf_bytes(lines)
    assert data == pdf_bytes(lines)
    assert b"/ID" not in data
    assert b"D:20250101" in data


def test_pages_hold_every_line_of_every_section() -> None:
    recipe = one(2, "pdf", "deals").hidden["recipe"]
    paged, plain = build(recipe), build({**recipe, "form": "text"})
    words = [re.sub(r"\[page \d+\]|[-=]{4,}", " ", made.document.text()).split() for made in (paged, plain)]
    assert words[0] == words[1]
    assert paged.document.num_pages > 2


@pytest.mark.parametrize("tokens", [1_000, 12_000])
@pytest.mark.parametrize("form", FORMATS)
def test_documents_are_as_long_as_asked(tokens: int, form: Format) -> None:
    text = build(one(1, form, "growth", tokens=tokens).hidden["recipe"]).document.text()
    assert len(text) / 4 == pytest.approx(tokens, rel=0.35 if tokens == 1_000 else 0.1)


def test_a_long_document_is_in_neither_prompt_nor_payload_when_it_is_behind_tools() -> None:
    task = one(3, "markdown", "margin", tokens=32_000)
    assert len(task.prompt[-1].content) < 4_000
    assert len(json.dumps(dict(task.hidden)) + json.dumps(dict(task.public))) < 8_000
    assert {tool.name for tool in task.tools} == {"search", "read_section", "submit"}
    assert {tool.name for tool in one(3, "pdf", "margin").tools} == {"search", "read_section", "read_page", "submit"}


def library(task: TaskSpec) -> tuple[Library, Document]:
    document = build(task.hidden["recipe"]).document
    return Library(document), document


def test_search_finds_the_note_and_reading_shows_it() -> None:
    shelf, document = library(one(3, "text", "growth", tokens=32_000))
    note = next(part for part in document.parts if "first reported" in part.text)
    assert shelf.search("figures restated first reported").startswith(f"[{note.label}] {note.title}: ... ")
    assert shelf.section(note.label) == note.text
    assert shelf.section(f"{note.label}: {note.title}") == note.text
    assert shelf.section(note.title.upper()) == note.text
    assert shelf.search("zyzzyva") == "Nothing found."
    assert shelf.search("?!") == "The query has no words."
    assert "no such section" in shelf.section("9999")


def test_pages_are_read_with_all_that_stands_on_them() -> None:
    shelf, document = library(one(3, "pdf", "growth"))
    assert document.num_pages >= 3
    together = "\n".join(shelf.page(number) for number in range(1, document.num_pages + 1))
    words = re.sub(r"\[page \d+\]", " ", document.text()).split()
    assert re.sub(r"\[page \d+\]", " ", together).split() == words
    assert "no page 999" in shelf.page(999)


async def test_an_episode_by_tools_counts_bad_calls_and_ends_with_the_answer() -> None:
    task, made = one(3, "text", "per_head"), domain()
    episode = await made.open(task, NOWHERE)
    assert not (await episode.reply("Let me think.")).valid_action
    read = await episode.reply(say_call("search", query="revenue") + say_call("read_section", section="Note 1"))
    assert "[" in read.observation
    assert not read.done
    answer = domain().solutions(task).oracle[-1]
    assert (await episode.reply(answer)).done
    outcome = await episode.outcome()
    assert outcome.metrics == {
        "num_turns": 3.0,
        "num_calls": 2.0,
        "num_invalid_actions": 1.0,
        "valid_actions": pytest.approx(2 / 3),
    }
    found = await made.verify(task, outcome, NOWHERE)
    assert found.passed
    assert found.reward == pytest.approx(0.7 + 0.3 * 2 / 3)


async def test_episodes_that_open_at_once_share_one_document() -> None:
    task, made = one(3, "text", "growth", tokens=64_000), domain()
    opened = await asyncio.gather(*(made.open(task, NOWHERE) for _ in range(4)))
    assert len({id(episode._library) for episode in opened}) == 1  # type: ignore[attr-defined]
    said = [await episode.reply(say_call("search", query="revenue")) for episode in opened]
    assert len({reply.observation for reply in said}) == 1


async def test_an_episode_ends_at_its_last_turn() -> None:
    task = domain(levels=(3,), formats=("text",), max_turns=2).make_task("train", 0, 0)
    episode = await domain().open(task, NOWHERE)
    assert not (await episode.reply(say_call("search", query="revenue"))).done
    assert (await episode.reply(say_call("search", query="revenue"))).done
    assert not (await domain().verify(task, await episode.outcome(), NOWHERE)).passed


async def test_saying_nothing_earns_a_little_and_inventing_everything_earns_nothing() -> None:
    for kind in KINDS:
        task = one(1, "text", kind)
        invented = await judged(task, (json.dumps(all_wrong(build(task.hidden["recipe"]).question)),))
        nothing = await judged(task, domain().solutions(task).noop)
        assert invented.reward == 0.0
        assert nothing.reward == pytest.approx(0.7 * 0.15)


async def test_right_values_without_evidence_do_not_pass() -> None:
    task = one(1, "text", "profile")
    answer = json.loads(domain().solutions(task).oracle[0])
    found = await judged(task, (json.dumps({"values": answer["values"]}),))
    assert not found.passed
    assert found.reward == pytest.approx(0.7 * 0.85)


async def test_the_verdict_tells_what_was_wrong() -> None:
    task = one(1, "text", "profile")
    answer = json.loads(domain().solutions(task).oracle[0])
    answer["values"]["order_intake"]["currency"] = "USD"
    found = await judged(task, (json.dumps(answer),))
    terms = {term.name: term for term in found.terms}
    assert terms["restraint"].note == "wrong: order_intake"
    assert terms["hallucination_rate"].value > 0
    assert terms["omission_rate"].value == 0.0


async def test_metrics_that_are_out_of_range_do_not_break_the_verdict() -> None:
    task = one(1, "text", "profile")
    for value in (float("nan"), float("inf"), -3.0, 7.0):
        outcome = Outcome(submission=domain().solutions(task).oracle[0], metrics={"valid_actions": value})
        assert (await domain().verify(task, outcome, NOWHERE)).passed


def test_options_that_do_not_exist_are_told() -> None:
    with pytest.raises(EnvironmentAuthorError, match="levels \\[4\\]"):
        domain(levels=(4,))
    with pytest.raises(EnvironmentAuthorError, match="'poems'"):
        domain(kinds=("poems",))


def test_a_changed_generator_is_noticed_where_the_document_is_not_in_the_task() -> None:
    task = one(3, "text", "deals")
    changed = replace(task, hidden={**task.hidden, "digest": content_hash("another")})
    assert any("another document" in said for said in domain().check(changed))


def test_another_wording_or_order_is_another_document() -> None:
    recipe = one(1, "text", "growth").hidden["recipe"]
    texts = {build({**recipe, "wording": w, "order": o}).document.text() for w, o in product(range(3), range(4))}
    assert len(texts) == making.NUM_WORDINGS * making.NUM_ORDERS


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_solutions_have_their_standing_in_every_kind_and_format(level: int) -> None:
    """3 levels x 8 kinds x 4 formats x 3 tasks = 288."""
    for kind, form, (split, index) in product(KINDS, FORMATS, (("train", 0), ("train", 1), ("heldout", 0))):
        task = one(level, form, kind, tokens=3_000, index=index, split=split)
        known = domain().solutions(task)
        assert domain().check(task) == []
        assert_figures_stand_where_they_are_said_to(build(task.hidden["recipe"]))
        rungs = [await judged(task, script) for script in (known.oracle, *known.ladder, known.noop)]
        rewards = [found.reward or 0.0 for found in rungs]
        assert rewards[0] == 1.0, task.template
        assert [found.passed for found in rungs] == [True] + [False] * (len(rungs) - 1), task.template
        assert rewards == sorted(rewards, reverse=True), task.template
        assert rewards[-1] <= 0.2
        assert len(known.wrong) >= 12
        for script in known.wrong:
            found = await judged(task, script)
            assert found.valid, (task.template, script)
            assert not found.passed, (task.template, script)
        for script in known.equivalent:
            assert (await judged(task, script)).reward == 1.0, (task.template, script)


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "form"), product((1_000, 32_000, 256_000, 1_000_000), FORMATS))
async def test_documents_up_to_a_million_tokens_are_sound(tokens: int, form: Format) -> None:
    task = one(1 if tokens == 1_000 else 3, form, "segments", tokens=tokens)
    made = build(task.hidden["recipe"])
    assert len(made.document.text()) / 4 == pytest.approx(tokens, rel=0.35 if tokens == 1_000 else 0.05)
    assert_figures_stand_where_they_are_said_to(made)
    assert domain().check(task) == []
    assert (await judged(task, domain().solutions(task).oracle)).reward == 1.0
