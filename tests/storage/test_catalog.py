"""SQL over what is committed, on both backends: right rows, nothing else readable, nothing writable."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from assay.errors import ConfigurationError, StoreError
from storage.catalog import Catalog
from storage.log import each
from storage.names import DATA
from storage.rows import reward_rows
from storage.store import Store
from storage.tables import TABLES
from storage.views import JOINED
from tests.builders import a_trajectory, a_verdict, a_verified
from tests.storage.samples import a_group, event, fill, write_rollouts

BY_DOMAIN = "FROM trajectories SELECT domain, count(*) AS n, avg(reward) FILTER (valid) AS reward GROUP BY 1"


def test_trajectories_come_with_their_verdicts(store: Store) -> None:
    write_rollouts(store, a_group())
    result = Catalog(store).sql(BY_DOMAIN)
    assert (result.columns, result.rows) == (["domain", "n", "reward"], [("toy", 4, 0.5)])
    assert result.snapshot == "c_000003"
    assert result.seconds > 0
    assert len(result) == 1
    rows = Catalog(store).sql("FROM trajectories SELECT valid, reward, passed, cause ORDER BY sample_index").rows
    assert rows[:3] == [(True, 1.0, True, None), (True, 0.0, False, None), (True, 0.5, False, None)]
    assert rows[3:] == [(False, None, False, "sandbox")]


def test_a_table_in_sql_is_the_table_in_polars(store: Store) -> None:
    fill(store)
    catalog = Catalog(store)
    for name in TABLES:
        view = "raw_trajectories" if name == "trajectories" else name
        shown = catalog.sql(f"FROM {view}").pl()
        assert shown.schema == TABLES[name].schema, name
        assert shown.sort(TABLES[name].key).equals(store.frame(name).sort(TABLES[name].key)), name


def test_an_empty_store_has_every_view_with_its_types(store: Store) -> None:
    catalog = Catalog(store)
    assert catalog.snapshot == "c_000000"
    names = {row[0] for row in catalog.sql("SHOW TABLES").rows}
    assert names == (TABLES.keys() - {"trajectories"}) | {"raw_trajectories", "verdicts"} | JOINED.keys()
    for name in names:
        assert len(catalog.sql(f"FROM {name}")) == 0
    assert catalog.sql("FROM turns").pl().schema == TABLES["turns"].schema
    assert catalog.sql("FROM trajectories").pl().schema["terms"] == TABLES["rewards"].schema["terms"]


def test_rows_written_under_two_keys_are_shown_once(store: Store) -> None:
    group = a_group()
    write_rollouts(store, group, key="first")
    write_rollouts(store, group[:2], key="again", iteration=9)
    catalog = Catalog(store)
    assert catalog.sql("FROM raw_trajectories SELECT count(*), max(iteration)").rows == [(4, 1)]
    assert catalog.sql("FROM turns SELECT count(*)").rows == [(4,)]
    assert catalog.sql(BY_DOMAIN).rows == [("toy", 4, 0.5)]
    for table in TABLES:
        store.compact(table)
    assert Catalog(store).sql(BY_DOMAIN).rows == [("toy", 4, 0.5)]


def test_the_newest_verdict_counts_and_older_ones_stay_in_rewards(store: Store) -> None:
    group = a_group()
    write_rollouts(store, group)
    again = a_verified(group[1].trajectory, a_verdict(1.0))
    row = reward_rows([again])[0] | {"verifier_version": "0 but newer"}
    store.commit("rewards", [row], key="again", run_id="r")
    for _ in range(2):
        catalog = Catalog(store)
        assert catalog.sql("FROM rewards SELECT count(*)").rows == [(5,)]
        assert catalog.sql("FROM verdicts SELECT count(*)").rows == [(4,)]
        query = "FROM trajectories SELECT count(*), sum(reward), max(verifier_version) FILTER (sample_index = 1)"
        assert catalog.sql(query).rows == [(4, 2.5, "0 but newer")]
        store.compact("rewards")


def test_a_rollout_that_failed_is_invalid_before_anybody_judges_it(local: Store) -> None:
    from assay.records import Cause, Failure
    from storage.rows import trajectory_rows

    failed = a_trajectory(failure=Failure(cause=Cause.ENGINE, detail="gone"))
    local.commit("trajectories", trajectory_rows([failed], 0), key="k", run_id="r")
    rows = Catalog(local).sql("FROM trajectories SELECT valid, cause, detail, reward").rows
    assert rows == [(False, "engine", "gone", None)]


def test_only_committed_rows_are_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit("runs", [event(1)], key="k", run_id="r")
    with monkeypatch.context() as patch:
        patch.setattr(type(store.objects), "put_if_absent", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.commit("runs", [event(2)], key="orphan", run_id="r")
    assert len(store.objects.list(DATA)) == 2
    assert Catalog(store).sql("FROM runs SELECT iteration").rows == [(1,)]


def test_a_catalogue_shows_its_snapshot_until_it_is_refreshed(store: Store) -> None:
    store.commit("runs", [event(1)], key="a", run_id="r")
    catalog = Catalog(store)
    store.commit("runs", [event(2)], key="b", run_id="r")
    assert catalog.sql("FROM runs SELECT count(*)").rows == [(1,)]
    assert catalog.refresh() == "c_000002"
    assert catalog.sql("FROM runs SELECT count(*)").rows == [(2,)]


def test_files_merged_and_swept_under_an_open_catalogue_are_found_again(store: Store) -> None:
    for i in range(3):
        store.commit("runs", [event(i)], key=f"k{i}", run_id="r")
    catalog = Catalog(store)
    Store(store.objects).compact("runs")
    Store(store.objects, now=lambda: datetime.now(UTC) + timedelta(days=9)).sweep()
    assert catalog.sql("FROM runs SELECT count(*)").rows == [(3,)]


def test_files_that_are_gone_are_the_stores_fault_not_the_querys(store: Store) -> None:
    store.commit("runs", [event(1)], key="a", run_id="r")
    catalog = Catalog(store)
    for key in store.objects.list(DATA):
        store.objects.delete(key)
    with pytest.raises(StoreError):
        catalog.sql("FROM runs")


def test_columns_newer_than_a_file_are_null(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLES["runs"]
    fewer = {name: column for name, column in table.columns.items() if name != "name"}
    with monkeypatch.context() as patch:
        patch.setitem(TABLES, "runs", type(table)(table.name, table.meaning, table.key, fewer))
        local.commit("runs", [{k: v for k, v in event(1).items() if k != "name"}], key="old", run_id="r")
    local.commit("runs", [event(1), event(2)], key="new", run_id="r")
    rows = Catalog(local).sql("FROM runs SELECT iteration, name ORDER BY iteration").rows
    assert rows == [(1, None), (2, "n")]


def test_the_lineage_leads_from_a_policy_to_trajectories(store: Store) -> None:
    group = fill(store)
    query = """
        FROM lineage SELECT policy_name, count(trajectory_id) AS n, count(*) FILTER (used) AS used
        GROUP BY 1 ORDER BY 1
    """
    assert Catalog(store).sql(query).rows == [("v0", 0, 0), ("v1", len(group), 3)]


def test_parameters_are_values_not_sql(local: Store) -> None:
    local.commit("runs", [event(1, stage="it's")], key="a", run_id="r")
    catalog = Catalog(local)
    assert catalog.sql("FROM runs SELECT iteration WHERE stage = ?", ["it's"]).rows == [(1,)]
    assert catalog.sql("FROM runs SELECT iteration WHERE stage = $s", {"s": "it's"}).rows == [(1,)]
    assert catalog.sql("FROM runs SELECT iteration WHERE stage IN (SELECT unnest($1))", [["x"]]).rows == []


def test_a_view_named_by_a_value_is_filled_too(local: Store) -> None:
    local.commit("runs", [event(1)], key="a", run_id="r")
    assert Catalog(local).sql("FROM query_table('ru' || 'ns') SELECT count(*)").rows == [(1,)]


READS = [
    "SELECT 1",
    "-- a remark\n  /* and\n another */ (SELECT 1)",
    "WITH a AS (SELECT 1 AS x) FROM a",
    "VALUES (1), (2)",
    "DESCRIBE runs",
    "SUMMARIZE runs",
    "SHOW TABLES",
    "PIVOT runs ON stage USING count(*)",
    "EXPLAIN FROM runs",
    "EXPLAIN ANALYZE FROM runs",
    "SELECT 1;",
]


@pytest.mark.parametrize("query", READS)
def test_every_way_to_read_is_open(local: Store, query: str) -> None:
    local.commit("runs", [event(1)], key="a", run_id="r")
    assert len(Catalog(local).sql(query)) > 0


def test_nothing_can_be_written_and_no_other_file_read(local: Store, tmp_path: Path) -> None:
    local.commit("runs", [event(1)], key="a", run_id="r")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    catalog, inside = Catalog(local), local.objects.uri("data/x.csv")
    before = sorted(tmp_path.rglob("*"))
    for query in (
        f"COPY (SELECT 1) TO '{inside}'",
        f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{inside}'",
        f"EXPLAIN (FORMAT json) COPY (SELECT 1) TO '{inside}'",
        f"COPY (PIVOT runs ON stage USING count(*)) TO '{inside}'",
        f"EXPORT DATABASE '{tmp_path}/all'",
        f"ATTACH '{tmp_path}/db'",
        f"FROM read_csv('{tmp_path}/secret.csv')",
        f"FROM '{tmp_path}/secret.csv'",
        f"SELECT content FROM read_text('{tmp_path}/secret.csv')",
        f"FROM glob('{tmp_path}/*')",
        "CREATE TABLE a AS SELECT 1",
        "CREATE OR REPLACE VIEW runs AS SELECT 1",
        "DROP VIEW runs",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "INSTALL httpfs",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT 1; DROP VIEW runs",
        "",
        "-- nothing",
    ):
        with pytest.raises(ConfigurationError):
            catalog.sql(query)
    assert sorted(tmp_path.rglob("*")) == before
    assert catalog.sql("FROM runs SELECT count(*)").rows == [(1,)]


def test_variables_of_the_program_are_not_tables(local: Store) -> None:
    hidden = pl.DataFrame({"a": [1]})
    with pytest.raises(ConfigurationError, match="hidden does not exist"):
        Catalog(local).sql("FROM hidden")
    assert len(hidden) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("FROM trajectorys", "Did you mean"),
        ("FROM runs SELECT wall", 'column "wall" not found'),
        ("SELECT ?", "Values were not provided"),
        ("SELECT 'x'::INT", "Could not convert"),
    ],
)
def test_wrong_sql_is_told_with_the_reason(local: Store, query: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Catalog(local).sql(query)


def test_answers_are_plain_values(local: Store) -> None:
    result = Catalog(local).sql(
        "SELECT sum(i) AS s, 1 AS a, 2 AS a, 1.50 AS d, [1] AS l, INTERVAL 1 DAY AS t FROM range(4) r(i)"
    )
    assert result.columns == ["s", "a", "a_1", "d", "l", "t"]
    assert result.rows[0][:3] == (6, 1, 2)
    assert result.pl().schema["s"] == pl.Int64()
    assert result.df()["s"].tolist() == [6]
    assert Catalog(local).sql("SELECT sum(i) AS s FROM (VALUES (NULL::BIGINT)) r(i)").rows == [(None,)]
    huge = Catalog(local).sql("SELECT 100000000000000000000::HUGEINT AS h").rows[0][0]
    assert int(huge) == 10**20


def test_threads_may_share_a_catalogue(local: Store) -> None:
    write_rollouts(local, a_group())
    catalog = Catalog(local)
    barrier = threading.Barrier(6)

    def ask(_: int) -> object:
        barrier.wait()
        return [catalog.sql(BY_DOMAIN).rows for _ in range(5)]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(6))) == [[[("toy", 4, 0.5)]] * 5] * 6


def test_a_refresh_does_not_disturb_questions_under_way(local: Store) -> None:
    write_rollouts(local, a_group())
    catalog = Catalog(local)
    done = threading.Event()

    def ask(_: int) -> set[object]:
        answers: set[object] = set()
        while not done.is_set():
            answers |= set(catalog.sql(BY_DOMAIN).rows)
        return answers

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask, i) for i in range(3)]
        for _ in range(8):
            catalog.refresh()
        done.set()
        assert set().union(*(one.result() for one in asking)) == {("toy", 4, 0.5)}


def test_a_store_of_three_hundred_commits_opens_in_under_a_second_of_work(local: Store) -> None:
    each(lambda i: local.commit("runs", [event(i)], key=f"k{i}", run_id="r"), range(300))
    begin = time.process_time()
    catalog = Catalog(Store(local.objects))
    assert time.process_time() - begin < 1
    assert catalog.snapshot == "c_000300"
    assert catalog.sql("FROM runs SELECT count(*)").rows == [(300,)]
