"""An agent at work in a real sandbox: what each tool shows, and what its mistakes cost."""

import json
from collections.abc import AsyncIterator

import pytest

from assay.records import Message, TaskSpec
from assay.registry import build_plugin
from environments import artifacts, workbench
from environments.base import Reply
from environments.sandboxes.base import SandboxSpec
from environments.tools import say_call
from environments.workbench import SHOWN_CHARS, TOOLS, Workbench, clipped, progress

FILES: dict[str, str | bytes] = {"a.txt": "one\ntwo\none\n", "b.bin": b"\xff\x00\xfe", "keep.txt": "kept\n"}


@pytest.fixture
async def bench() -> AsyncIterator[Workbench]:
    sandboxes = build_plugin("sandbox", "bubblewrap")
    opened = await Workbench.open(a_task(), sandboxes, SandboxSpec(files=FILES), ["*.txt"])
    yield opened
    await opened.close()
    await opened.close()


def a_task(max_turns: int = 20) -> TaskSpec:
    return TaskSpec(
        id="work/train/0000",
        domain="work",
        environment_version="1",
        split="train",
        level=1,
        template="t",
        answer_digest="d",
        prompt=(Message(role="user", content="Work."),),
        public={},
        hidden={},
        max_turns=max_turns,
        max_new_tokens=64,
        tools=TOOLS,
    )


async def call(bench: Workbench, name: str, **arguments: object) -> Reply:
    return await bench.reply(say_call(name, **arguments))


async def test_a_session_keeps_its_folder_and_variables(bench: Workbench) -> None:
    await call(bench, "run", command="mkdir -p deep && cd deep && word=hello")
    reply = await call(bench, "run", command='echo "$word" from "${PWD##*/}"')
    assert reply.observation == "hello from deep\n[exit code 0]"
    assert (await call(bench, "run", command="exec 2>&1; ls /nowhere; false")).observation.endswith("[exit code 1]")


async def test_reading_numbers_the_lines(bench: Workbench) -> None:
    assert (await call(bench, "read", path="a.txt", first=2)).observation == "    2  two\n    3  one"
    assert (await call(bench, "read", path="a.txt", first=9)).observation == "[no lines]"


async def test_an_edit_needs_text_that_occurs_once(bench: Workbench) -> None:
    assert (await call(bench, "edit", path="a.txt", old="two", new="2")).observation == "edited a.txt"
    twice = await call(bench, "edit", path="a.txt", old="one", new="1")
    assert "occurs 2 times" in twice.observation
    assert (await bench.outcome()).metrics["recovery"] == 0.0
    absent = await call(bench, "edit", path="a.txt", old="three", new="3")
    assert "occurs 0 times" in absent.observation
    assert artifacts.read((await bench.outcome()).submission).text("a.txt") == "one\n2\none\n"


async def test_an_edit_keeps_the_mode_of_a_script(bench: Workbench) -> None:
    await call(bench, "run", command="echo 'echo one' > say.sh; chmod 755 say.sh")
    await call(bench, "edit", path="say.sh", old="one", new="two")
    assert (await call(bench, "run", command="./say.sh")).observation == "two\n[exit code 0]"


async def test_overlapping_places_are_more_than_one(bench: Workbench) -> None:
    await call(bench, "write", path="a.txt", text="aaa")
    assert "occurs 2 times" in (await call(bench, "edit", path="a.txt", old="aa", new="b")).observation


@pytest.mark.parametrize("path", ["/workspace/keep.txt", "./keep.txt", "keep.txt"])
async def test_paths_as_the_shell_shows_them_work_in_every_tool(bench: Workbench, path: str) -> None:
    assert (await call(bench, "read", path=path)).observation == "    1  kept"
    assert (await call(bench, "edit", path=path, old="kept", new="left")).observation == "edited keep.txt"
    assert (await call(bench, "write", path=path, text="x")).observation == "wrote keep.txt"


async def test_a_link_that_leads_outside_is_not_followed(bench: Workbench) -> None:
    await call(bench, "run", command="ln -s /etc link")
    assert (await call(bench, "write", path="link/out.txt", text="x")).observation.startswith("error:")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "none.txt"}),
        ("read", {"path": "b.bin"}),
        ("edit", {"path": "b.bin", "old": "x", "new": "y"}),
        ("read", {"path": "../../etc/passwd"}),
        ("read", {"path": "/etc/passwd"}),
        ("write", {"path": "../out.txt", "text": "x"}),
        ("write", {"path": "/tmp/out.txt", "text": "x"}),
        ("write", {"path": "a.txt/b", "text": "x"}),
        ("write", {"path": "", "text": "x"}),
    ],
)
async def test_a_file_that_cannot_be_had_is_the_agents_mistake(
    bench: Workbench, name: str, arguments: dict[str, str]
) -> None:
    reply = await call(bench, name, **arguments)
    assert reply.observation.startswith("error:")
    assert (reply.done, reply.valid_action) == (False, True)
    assert (await bench.outcome()).metrics["recovery"] == 0.0
    assert (await call(bench, "write", path="new.txt", text="x")).observation == "wrote new.txt"
    outcome = await bench.outcome()
    assert outcome.metrics["recovery"] == 1.0
    assert set(artifacts.read(outcome.submission).files) == {"a.txt", "keep.txt", "new.txt"}


async def test_a_huge_output_is_clipped_in_the_middle(bench: Workbench) -> None:
    reply = await call(bench, "run", command="echo start; head -c 60000 /dev/zero | tr '\\0' x; echo; echo the end")
    assert reply.observation.startswith("start\nxxx")
    assert reply.observation.endswith("the end\n[exit code 0]")
    assert "characters left out" in reply.observation
    assert len(reply.observation) < SHOWN_CHARS + 200


async def test_a_command_that_takes_too_long_is_ended_and_work_goes_on(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "COMMAND_S", 1.0)
    reply = await call(bench, "run", command="echo begun; sleep 60")
    assert "begun" in reply.observation
    assert "timed out after 1 s" in reply.observation
    assert (await bench.outcome()).metrics["recovery"] == 0.0
    assert "alive" in (await call(bench, "run", command="echo alive")).observation


async def test_finishing_gives_the_answer_and_ends(bench: Workbench) -> None:
    reply = await call(bench, "finish", answer="42")
    assert (reply.done, reply.observation) == (True, "")
    left = artifacts.read((await bench.outcome()).submission)
    assert (left.answer, left.text("keep.txt")) == ("42", "kept\n")


async def test_calls_of_one_message_are_carried_out_in_order_until_finish(bench: Workbench) -> None:
    reply = await bench.reply(
        say_call("write", path="n.txt", text="1")
        + say_call("run", command="cat n.txt")
        + say_call("finish", answer="x")
        + say_call("run", command="rm n.txt")
    )
    assert reply.done
    assert reply.observation == "wrote n.txt\n1\n[exit code 0]"
    assert [each["name"] for each in json.loads(reply.action)] == ["write", "run", "finish", "run"]
    assert "n.txt" in artifacts.read((await bench.outcome()).submission).files


async def test_a_link_left_behind_is_refused(bench: Workbench) -> None:
    await call(bench, "run", command="ln -s /etc/hostname link.txt; ln -sf b.bin keep.txt")
    left = artifacts.read((await bench.outcome()).submission)
    assert set(left.files) == {"a.txt"}
    assert {"link.txt", "keep.txt"} <= set(left.refused)


async def test_a_message_without_a_call_costs_a_turn_and_tells_how(bench: Workbench) -> None:
    reply = await bench.reply("I think about it.")
    assert (reply.valid_action, reply.done, reply.action) == (False, False, "")
    assert "<tool_call>" in reply.observation
    unknown = await bench.reply(say_call("fly", to="moon"))
    assert "no tool 'fly'" in unknown.observation
    metrics = (await bench.outcome()).metrics
    assert (metrics["num_turns"], metrics["num_invalid_actions"], metrics["valid_actions"]) == (2.0, 2.0, 0.0)


async def test_the_last_turn_that_is_allowed_ends_the_episode() -> None:
    bench = await Workbench.open(a_task(max_turns=2), build_plugin("sandbox", "bubblewrap"), SandboxSpec(), ["*"])
    try:
        assert not (await call(bench, "read", path="x")).done
        assert (await call(bench, "read", path="x")).done
        assert (await bench.outcome()).metrics["steps"] == 0.5
    finally:
        await bench.close()


async def test_equal_work_gives_equal_state(bench: Workbench) -> None:
    other = await Workbench.open(a_task(), build_plugin("sandbox", "bubblewrap"), SandboxSpec(files=FILES), ["*"])
    try:
        assert await bench.state_hash() == await other.state_hash()
        await call(bench, "write", path="n.txt", text="1")
        assert await bench.state_hash() != await other.state_hash()
        await call(other, "write", path="n.txt", text="1")
        assert await bench.state_hash() == await other.state_hash()
    finally:
        await other.close()


def test_progress_of_an_episode_by_hand() -> None:
    figures = progress(num_turns=3, max_turns=5, num_invalid=1, failing=False)
    assert figures["steps"] == 0.75
    assert figures["valid_actions"] == pytest.approx(2 / 3)
    assert figures["recovery"] == 1.0


def test_clipping_keeps_both_ends_and_counts_what_is_left_out() -> None:
    assert clipped("abcdefghij", most=10) == "abcdefghij"
    assert clipped("abcdefghijk", most=4) == "ab\n[... 7 characters left out ...]\njk"
