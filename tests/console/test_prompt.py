"""The SQL prompt answers line by line, survives mistakes and completes what exists."""

from pathlib import Path
from typing import Any

import pytest

from console.prompt import Shell, schema_table
from storage import named
from storage.catalog import Catalog
from storage.store import Store
from storage.tables import TABLES
from tests.console.lake import RUN, make_lake

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def shell(catalog: Catalog) -> Shell:
    return Shell(lambda: catalog)


def test_a_query_is_answered_with_its_footer(shell: Shell, capsys: Capsys) -> None:
    shell.answer("SELECT 40 + 2 AS answer")
    captured = capsys.readouterr()
    assert captured.out == "answer\n------\n    42\n"
    assert captured.err.startswith("1 row, ")


def test_a_mistake_is_said_and_the_conversation_goes_on(shell: Shell, capsys: Capsys) -> None:
    for line in ("SELEC 1", ".run nope", ".show nope", ".nope", ".schema nope", "DROP VIEW trajectories"):
        shell.answer(line)
        assert capsys.readouterr().err, line
    assert shell.open


def test_rows_go_down_the_screen_on_request(shell: Shell, capsys: Capsys) -> None:
    shell.answer("\\x")
    shell.answer("SELECT 1 AS one, 'two' AS two")
    assert capsys.readouterr().out == "-- row 1\ncolumn  value\n------  -----\none     1\ntwo     two\n"
    shell.answer("\\x")
    shell.answer("SELECT 1 AS one")
    assert capsys.readouterr().out == "one\n---\n  1\n"


def test_named_queries_are_listed_and_run(shell: Shell, capsys: Capsys) -> None:
    shell.answer(".queries")
    listed = capsys.readouterr().out
    for query in named.queries():
        assert query.title in listed
        shell.answer(f".run {query.name}")
        captured = capsys.readouterr()
        assert "error" not in captured.err, query.name
        assert " s, snapshot " in captured.err


def test_the_schema_tells_meaning_and_type(shell: Shell, capsys: Capsys) -> None:
    shell.answer(".schema")
    assert all(table.meaning in capsys.readouterr().out for table in list(TABLES.values())[:1])
    assert "Log-probabilities of the sampled tokens, nats" in schema_table("turns")


def test_completion_offers_commands_tables_columns_queries_and_functions(shell: Shell) -> None:
    words = shell.words()
    assert {".queries", "trajectories", "sample_index", "why_zero", "SELECT", "arg_max"} <= set(words)
    assert len(words) == len(set(words))


def test_refresh_shows_what_was_committed_since(tmp_path: Path, capsys: Capsys) -> None:
    store = make_lake(str(tmp_path))
    shell = Shell(lambda: Catalog(Store.open(str(tmp_path))))
    row = shell.catalog.sql("FROM runs LIMIT 1").pl().to_dicts()[0] | {"attempt": 2}
    store.commit("runs", [row], key="more", run_id=RUN)
    shell.answer("FROM runs SELECT max(attempt) AS n")
    shell.answer(".refresh")
    shell.answer("FROM runs SELECT max(attempt) AS n")
    assert capsys.readouterr().out == "n\n-\n1\nn\n-\n2\n"


def test_exit_leaves(shell: Shell) -> None:
    shell.answer(".exit")
    assert not shell.open


@pytest.mark.usefixtures("home")
def test_the_terminal_session_completes_words_and_commands(shell: Shell) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    completer = terminal_session(shell, "\r")[0].completer
    for typed, offered in (("FROM evalua", "evaluations"), (".quer", ".queries"), ("SELECT avg(rewa", "reward")):
        found = [c.text for c in completer.get_completions(Document(typed), CompleteEvent())]
        assert offered in found, typed


def test_alt_enter_makes_a_new_line_enter_sends_and_history_is_kept(shell: Shell, home: Path) -> None:
    assert terminal_session(shell, "FROM runs\x1b\rLIMIT 1\r")[1] == "FROM runs\nLIMIT 1"
    assert "FROM runs" in (home / "sql_history").read_text()


def terminal_session(shell: Shell, typed: str) -> tuple[Any, str]:
    """The prompt's session and what it read when `typed` came from the keyboard."""
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from console.prompt import _session

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(typed)
        session = _session(shell)
        return session, session.prompt("> ")
