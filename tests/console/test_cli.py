"""The command answers fast, keeps data and talk apart, names what is wrong in one line and exits with its code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from console import cli
from console.run import report_path
from tests.console.lake import RUN

Capsys = pytest.CaptureFixture[str]
HEAVY = {"torch", "prefect", "polars", "duckdb", "transformers", "pydantic", "rich", "jinja2", "altair", "yaml"}


def assay(monkeypatch: pytest.MonkeyPatch, capsys: Capsys, *args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["assay", *args])
    monkeypatch.delenv("ASSAY_DEBUG", raising=False)
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    captured = capsys.readouterr()
    return int(exit_.value.code or 0), captured.out, captured.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom console.cli import main\nsys.argv = ['assay', '--help']\n"
        f"try:\n    main()\nfinally:\n    print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Post-training for language models" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.usefixtures("home")
def test_sql_prints_data_on_stdout_and_how_it_came_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    query = "FROM trajectories SELECT domain, count(*) AS n GROUP BY 1 ORDER BY 1"
    code, out, err = assay(monkeypatch, capsys, "sql", query)
    assert code == 0
    assert out.splitlines() == [
        "domain              n",
        "-----------------  --",
        "code_repair        56",
        "record_extraction  56",
    ]
    assert re.fullmatch(r"2 rows, \d+\.\d\d s, snapshot c_0000\d\d\n", err)
    assert assay(monkeypatch, capsys, "sql", query, "--csv")[1] == "domain,n\ncode_repair,56\nrecord_extraction,56\n"
    assert json.loads(assay(monkeypatch, capsys, "sql", query, "--json")[1])[0] == {"domain": "code_repair", "n": 56}


@pytest.mark.usefixtures("home")
def test_sql_writes_parquet_reads_files_and_knows_names(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys, tmp_path: Path
) -> None:
    import polars as pl

    (tmp_path / "q.sql").write_text("SELECT 1 AS one, [1, 2] AS many")
    target = tmp_path / "out.parquet"
    code, out, _ = assay(monkeypatch, capsys, "sql", "-f", str(tmp_path / "q.sql"), "--parquet", str(target))
    assert (code, out) == (0, "")
    assert pl.read_parquet(target)["one"].to_list() == [1]
    assert assay(monkeypatch, capsys, "sql", "-f", str(tmp_path / "q.sql"), "--csv")[1] == 'one,many\n1,"[1, 2]"\n'
    assert "defect" in assay(monkeypatch, capsys, "sql", "--query", "defects")[1]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["sql", "SELEC 1"], 2, "SELEC"),
        (["sql", "--query", "nope"], 2, "Unknown query 'nope'. Known: "),
        (["sql", "SELECT 1", "--query", "defects"], 2, "Give one query"),
        (["sql", "SELECT 1", "--csv", "--json"], 2, "Choose one of --csv, --json and --parquet"),
        (["sql", "-f", "/nonexistent.sql"], 2, "Cannot read the query file"),
        (["show", "t_nope"], 2, "Nothing in the store is called 't_nope'"),
        (["report", "--run", "r_nope"], 2, "no run 'r_nope'"),
        (["run", "--preset", "nope"], 2, "Unknown preset 'nope'"),
        (["run", "--preset", "smoke", "--engine", "nope"], 2, "Unknown engine 'nope'. Known: "),
        (["run", "--preset", "smoke", "--set", "sandbox.options.fault=1"], 2, "sandbox.bubblewrap.fault"),
        (["inspect", "nope"], 2, "Unknown domain 'nope'"),
        (["nope"], 2, "No such command"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(
    args: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    got, out, err = assay(monkeypatch, capsys, *args)
    assert (got, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_a_store_that_cannot_be_used_exits_with_its_own_code(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    from assay.settings import settings

    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "file" / "store"))
    settings.cache_clear()
    code, _, err = assay(monkeypatch, capsys, "status")
    assert code == 3, err
    assert err.startswith("error: ")


@pytest.mark.usefixtures("home")
def test_status_lists_runs_and_tells_the_last_in_full(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    code, out, _ = assay(monkeypatch, capsys, "status")
    assert code == 0
    assert f"{RUN}  smoke #3  finished" in out
    full = assay(monkeypatch, capsys, "status", "--last")[1]
    assert "0 in any baseline" in full
    listed = json.loads(assay(monkeypatch, capsys, "status", "--json")[1])
    assert (listed[0]["run_id"], listed[0]["state"], listed[0]["number"]) == (RUN, "finished", 3)
    told = json.loads(assay(monkeypatch, capsys, "status", "--last", "--json")[1])
    assert told["failures_in_baseline"] == 0
    assert len(told["queries"]) == 3


def test_report_says_where_it_is(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys, tmp_path: Path) -> None:
    code, out, _ = assay(monkeypatch, capsys, "report")
    assert (code, out.strip()) == (0, str(report_path(RUN)))
    assert report_path(RUN).is_relative_to(home)
    out = assay(monkeypatch, capsys, "report", "--out", str(tmp_path / "my.html"), "--json")[1]
    assert json.loads(out)["report"] == str(tmp_path / "my.html")
    assert (tmp_path / "my.html").stat().st_size == json.loads(out)["bytes"]
    assert str(report_path(RUN)) in assay(monkeypatch, capsys, "status", "--last")[1]


@pytest.mark.usefixtures("home")
def test_every_command_we_suggest_exists(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    full = assay(monkeypatch, capsys, "status", "--last")[1]
    suggested = [line.strip() for line in full.split("\nnext\n")[1].splitlines()]
    assert len(suggested) == 6
    import shlex

    for line in suggested:
        args = [word for word in shlex.split(line)[1:] if word != "--open"]
        code, out, err = assay(monkeypatch, capsys, *args)
        assert code == 0, (line, err)
        assert out


@pytest.mark.usefixtures("home")
def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.errors import ConfigurationError

    monkeypatch.setattr(sys, "argv", ["assay", "--debug", "sql", "--query", "nope"])
    monkeypatch.setenv("ASSAY_DEBUG", "")
    with pytest.raises(ConfigurationError):
        cli.main()


@pytest.mark.usefixtures("home")
def test_show_reads_and_json_has_everything(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    code, out, _ = assay(monkeypatch, capsys, "show", "v3")
    assert code == 0
    assert "lineage v3 (grpo) <- v2 (grpo)" in out
    assert json.loads(assay(monkeypatch, capsys, "show", "v3", "--json")[1])["name"] == "v3"
