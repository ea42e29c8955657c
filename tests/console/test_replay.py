"""A real trajectory, recorded and stored as the flows do it, is played again; what was altered since is shown."""

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assay.config import PostTrainConfig, parse_config
from assay.records import PolicyVersion, SamplingParams, Trajectory
from assay.registry import build_plugin
from assay.settings import settings
from console import show
from console.sql import open_catalog
from environments.domains.code_repair import CodeRepair
from storage.store import Store
from tasks.load_tasks import load_tasks
from tasks.lookup import recorded
from tasks.roll_out import RolloutPlan, roll_out
from tasks.run import begin_run, now
from tasks.workshop import opened
from tests.console.test_cli import assay

Capsys = pytest.CaptureFixture[str]
OPTIONS = {"max_turns": 3, "max_new_tokens": 4096}
NOTE = 'open("/workspace/notes", "a").write("tried\\n")\n'


def a_config() -> PostTrainConfig:
    """One task of code repair; the engine answers it wrongly, then, told what failed, rightly, leaving notes."""
    domain = build_plugin("domain", "code_repair", OPTIONS)
    known = domain.solutions(domain.make_task("train", 0, 0))
    wrong, right = (script[0].replace("```python\n", f"```python\n{NOTE}", 1) for script in (known.noop, known.oracle))
    return parse_config(
        {
            "name": "replayed",
            "domains": {"code_repair": {"num_train": 1, "num_heldout": 1, "options": OPTIONS}},
            "engine": {"id": "scripted", "options": {"script": {"Correct the function.": [right]}, "default": [wrong]}},
            "sandbox": {"id": "bubblewrap", "options": {"max_concurrency": 2}},
            "rollout": {"state_hashes": True},
        }
    )


async def record(config: PostTrainConfig) -> Trajectory:
    """Roll the task out once as a run does, and read back what it committed."""
    policy = PolicyVersion(
        id="p_scripted",
        name="v0",
        kind="base",
        parent=None,
        uri="scripted",
        batch_ids=(),
        run_id="r",
        num_updates=0,
        metrics={},
        created_at=now(),
    )
    async with opened(config) as shop:
        run = begin_run(shop.store, config)
        tasks = load_tasks.fn(run)
        task_hash = shop.store.read(tasks)["task_hash"][0]
        sampling = SamplingParams(temperature=1.0, max_new_tokens=4096, seed=run.sampling_seed)
        assert await roll_out.fn(run, RolloutPlan("train", 1, policy, tasks, (task_hash,), 1, sampling)) == 1
        shop.sandboxes.close()
        return recorded(shop.catalog(), "t_").trajectory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trajectory]:
    """A store with one trajectory of two turns, and the trajectory."""
    folder = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(folder / "home"))
        patch.setenv("ASSAY_STORE", str(folder / "store"))
        # Progress artifacts are for Prefect's server, which nothing else here needs.
        patch.setattr("tasks.roll_out.progress", lambda *_: nullcontext())
        settings.cache_clear()
        trajectory = asyncio.run(record(a_config()))
    settings.cache_clear()
    return folder / "store", trajectory


@pytest.fixture
def trajectory(made: tuple[Path, Trajectory], monkeypatch: pytest.MonkeyPatch) -> Trajectory:
    """The recorded trajectory, in the store of the settings."""
    use(made[0], monkeypatch)
    return made[1]


def use(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_STORE", str(store))
    settings.cache_clear()


def altered(
    made: tuple[Path, Trajectory], target: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]
) -> Path:
    """A store with the same rows, but for one table's change."""
    store, copy = Store.open(str(made[0])), Store.open(str(target))
    for name in ("tasks", "runs", "turns", "trajectories"):
        frame = store.frame(name)
        copy.commit(name, change(frame) if name == table else frame, key="copy", run_id="r")
    return target


def with_value(column: str, value: str, turn: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    chosen = pl.when(pl.col("turn_index") == turn).then(pl.lit(value)).otherwise(pl.col(column))
    return lambda frame: frame.with_columns(chosen.alias(column))


def test_the_recorded_trajectory_is_wrong_first_and_then_right_and_leaves_a_state(trajectory: Trajectory) -> None:
    first, second = trajectory.turns
    assert (trajectory.end, trajectory.failure) == ("done", None)
    assert first.observation.endswith("Correct the function.")
    assert second.observation == ""
    assert first.state_hash != second.state_hash
    assert "" not in (first.state_hash, second.state_hash)


def test_a_trajectory_that_was_just_recorded_is_equal(
    trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    code, out, err = assay(monkeypatch, capsys, "replay", trajectory.id)
    assert (code, out.splitlines()) == (
        0,
        [
            f"{trajectory.id}  code_repair/train/0000  ended done",
            "recorded in bubblewrap, replayed in bubblewrap",
            "compared 2 of 2 turns (2 with their state hash), and the ending",
            "equal",
        ],
    )
    assert err == f"replaying {trajectory.id} on code_repair/train/0000 in bubblewrap\n"


def test_a_unique_prefix_and_json_tell_the_same(
    trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    code, out, _ = assay(monkeypatch, capsys, "replay", trajectory.id[:8], "--json")
    told: dict[str, Any] = json.loads(out)
    assert (code, told["trajectory_id"], told["result"]) == (0, trajectory.id, "equal")
    assert (told["num_compared"], told["num_hashes"], told["turn_index"], told["differences"]) == (2, 2, None, [])


def test_an_altered_observation_names_its_turn_and_shows_the_difference(
    made: tuple[Path, Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    said = made[1].turns[0].observation
    change = with_value("observation", "All is \x1b[31mwell.", 0)
    use(altered(made, tmp_path / "altered", "turns", change), monkeypatch)
    code, out, _ = assay(monkeypatch, capsys, "replay", made[1].id)
    assert (code, out.splitlines()[2:]) == (
        1,
        [
            "compared 1 of 2 turns (1 with their state hash)",
            "diverges at turn 1",
            "",
            "observation:",
            "  --- recorded",
            "  +++ replayed",
            "  @@ -1 +1 @@",
            "  -All is \\x1b[31mwell.",
            f"  +{said}",
        ],
    )
    told = json.loads(assay(monkeypatch, capsys, "replay", made[1].id, "--json")[1])
    assert (told["result"], told["turn_index"]) == ("diverges", 0)
    assert [(d["name"], d["replayed"]) for d in told["differences"]] == [("observation", said)]


def test_another_state_is_told_at_the_turn_that_left_it(
    made: tuple[Path, Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    left = made[1].turns[1].state_hash
    use(altered(made, tmp_path / "altered", "turns", with_value("state_hash", "0f", 1)), monkeypatch)
    code, out, _ = assay(monkeypatch, capsys, "replay", made[1].id)
    assert code == 1
    assert out.splitlines()[3:] == [
        "diverges at turn 2",
        "",
        "state_hash:",
        "  --- recorded",
        "  +++ replayed",
        "  @@ -1 +1 @@",
        "  -0f",
        f"  +{left}",
    ]


def test_a_sandbox_that_fails_is_no_divergence_and_exits_with_its_code(
    trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    code, out, _ = assay(monkeypatch, capsys, "replay", trajectory.id, "--set", "sandbox.options.fault_rate=1")
    assert code == 4
    assert out.splitlines()[2] == "compared 0 of 2 turns"
    assert out.splitlines()[3].startswith("could not be replayed (sandbox): Drill: creation 0 fails on purpose")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "domains.code_repair.options.timeout_s=1",
            "--set domains.code_repair.options.timeout_s would replay something",
        ),
        ("sandbox.id=nope", "Unknown sandbox 'nope'. Known: bubblewrap"),
        ("sandbox.options.colour=1", "sandbox.bubblewrap.colour"),
    ],
)
def test_an_override_that_cannot_be_is_one_line(
    override: str, said: str, trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    code, out, err = assay(monkeypatch, capsys, "replay", trajectory.id, "--set", override)
    assert (code, out) == (2, "")
    assert said in err


def test_another_version_of_the_environment_is_refused(
    trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setattr(CodeRepair, "version", "99")
    code, out, err = assay(monkeypatch, capsys, "replay", trajectory.id)
    assert (code, out) == (2, "")
    assert "of code_repair; here is version '99'" in err


def test_a_store_without_the_task_or_the_config_is_the_stores_fault(
    made: tuple[Path, Trajectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    for table, said in (("tasks", "lacks task code_repair/train/0000"), ("runs", "has no config of run")):
        use(altered(made, tmp_path / table, table, lambda frame: frame.clear()), monkeypatch)
        code, out, err = assay(monkeypatch, capsys, "replay", made[1].id)
        assert (code, out) == (3, "")
        assert said in err


@pytest.mark.usefixtures("home")
def test_an_unknown_id_is_answered_with_near_ones(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    known = str(open_catalog().sql("FROM trajectories SELECT min(trajectory_id)").rows[0][0])
    typo = known[:-1] + ("0" if known[-1] != "0" else "1")
    code, out, err = assay(monkeypatch, capsys, "replay", typo)
    assert (code, out) == (2, "")
    assert f"has no trajectory {typo!r}. Nearest: {known}, t_" in err
    assert "ambiguous among trajectories: t_" in assay(monkeypatch, capsys, "replay", "t_")[2]


def test_an_empty_store_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    use(tmp_path / "empty", monkeypatch)
    code, _, err = assay(monkeypatch, capsys, "replay", "t_1")
    assert code == 2
    assert "Nearest: none, the store has no trajectories." in err


def test_show_ends_with_the_command_that_replays(trajectory: Trajectory) -> None:
    assert list(show.lines(show.find(open_catalog(), trajectory.id)))[-1] == f"assay replay {trajectory.id}"
