"""The report is one page that loads nothing, escapes everything, balances its books and can be repeated by SQL."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from assay.errors import ConfigurationError, StoreError
from console.report import PLOTS, render, verdict, write_report
from console.summary import Summary, summarise
from storage.catalog import Catalog
from storage.store import Store
from tests.console.lake import RUN, make_lake

# What makes a browser fetch or run something.
FETCHING = {"script", "link", "iframe", "object", "embed", "audio", "video", "source", "base", "form", "image"}
LOADING_ATTRIBUTES = {"src", "href", "xlink:href", "action", "background", "srcset", "data", "poster"}


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self.feed(html)
        self.text = "\n".join(self.seen)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


@pytest.fixture(scope="module")
def summary(catalog: Catalog) -> Summary:
    return summarise(catalog, RUN, store="/store")


@pytest.fixture(scope="module")
def html(catalog: Catalog, summary: Summary) -> str:
    return render(catalog, summary)


def test_the_page_loads_nothing_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert not FETCHING & set(page.tags)
    for name, value in page.attributes:
        assert name not in LOADING_ATTRIBUTES or value.startswith(("#", "data:image/png;base64,")), (name, value)
        assert not name.startswith("on")
    assert not re.search(r"https?://|@import|url\((?!['\"]?#)", html)
    assert "default-src 'none'" in html
    assert len(html) < 2_000_000


def test_hostile_text_is_shown_as_text(html: str) -> None:
    page = Page(html)
    assert "<script>alert(1)</script> red & \"quoted\" 'x' {{ 7 * 7 }} gnp" in page.text
    assert not set("\x1b\x07\u202e") & set(html)


def test_every_plot_is_drawn_and_its_query_gives_the_rows_beside_it(catalog: Catalog, html: str) -> None:
    page = Page(html)
    assert page.tags.count("svg") == len(PLOTS)
    queries = [text.strip() for text in page.seen if f"'{RUN}'" in text and text.lstrip().startswith(("FROM", "WITH"))]
    assert len(queries) >= len(PLOTS)
    for query in queries:
        assert not catalog.sql(query).pl().is_empty()


def test_plots_do_not_share_ids(html: str) -> None:
    ids = re.findall(r'<(?:clipPath|linearGradient)[^>]* id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)


def test_outcomes_add_up_to_what_was_dispatched(catalog: Catalog, html: str) -> None:
    from console.report import FUNNEL_SQL
    from console.runs import literal, rows

    outcomes: dict[str, int] = {}
    for row in rows(catalog, FUNNEL_SQL.format(run=literal(RUN))):
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + row["num"]
    assert outcomes == {
        "held out": 48,
        "solvability estimate": 12,
        "trained": 32,
        "no signal": 16,
        "invalid: sandbox": 2,
        "invalid: engine": 2,
    }
    assert sum(outcomes.values()) == 112


def test_books_that_do_not_balance_stop_the_report(catalog: Catalog) -> None:
    from console.report import check_books

    with pytest.raises(StoreError, match="112 rollouts were dispatched but 5 outcomes"):
        check_books(catalog, RUN, [{"num": 5}])


def test_ten_trajectories_are_picked_by_named_rules_without_repetition(catalog: Catalog, summary: Summary) -> None:
    from console.transcripts import pick

    picks = list(pick(catalog, summary))
    assert len(picks) == 10
    assert len({view["trajectory_id"] for view in picks}) == 10
    assert [view["rule"] for view in picks[:3]] == [
        "invalid: engine",
        "invalid: sandbox",
        "held-out task the newest policy fails",
    ]
    assert all(view["turns"] for view in picks)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ([(0.5, 0.2, 0.7), (0.1, -0.1, 0.3)], "better"),
        ([(0.5, 0.2, 0.7), (-0.3, -0.5, -0.1)], "worse"),
        ([(0.1, -0.1, 0.3)], "unclear"),
        ([None], "unclear"),
        ([], "unclear"),
    ],
)
def test_the_verdict_is_as_good_as_the_worst_domain(
    summary: Summary, changes: list[tuple[float, float, float] | None], word: str
) -> None:
    held_out = tuple(replace(summary.held_out[0], difference=change) for change in changes)
    assert verdict(replace(summary, held_out=held_out))[0] == word


def test_a_run_that_has_just_begun_has_a_report_too(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "store"))
    begun = Catalog(make_lake(str(tmp_path / "full"))).sql("FROM runs WHERE event = 'started'").pl()
    store.commit("runs", begun, key="begun", run_id=RUN)
    catalog = Catalog(store)
    page = Page(render(catalog, summarise(catalog)))
    assert "unfinished" in page.text
    assert "svg" not in page.tags


def test_a_report_that_cannot_be_written_is_a_clear_error(catalog: Catalog, summary: Summary, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"Cannot write the report .*--out"):
        write_report(catalog, summary, tmp_path / "file" / "report.html")
    write_report(catalog, summary, tmp_path / "a" / "report.html")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["report.html"]
