"""Tool use: services that do a thing once, faults that need recovery, scores from what changed in the data."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import ConfigurationError, EnvironmentAuthorError
from assay.records import Cause, Split, TaskSpec, Verdict
from assay.registry import build_plugin
from environments.base import Outcome, Script, play, take
from environments.domains import _tool_use_scoring as scoring
from environments.domains import _tool_use_state as state
from environments.domains._tool_use_draw import Step
from environments.domains._tool_use_service import Desk, replay
from environments.domains._tool_use_shop import SERVICE as SHOP
from environments.domains.tool_use import SCENARIOS, SERVICES, ToolUse
from environments.tools import say_call
from rollouts.collect import collect
from rollouts.replay import replay as replayed
from tests.builders import SAMPLED, ToyEngine, a_request
from tests.environments.domains.conftest import NoPlace

NUM_SCENARIOS = len(SCENARIOS)
CUSTOMER = {
    "id": "C-10001",
    "name": "Ana Ruiz",
    "city": "Oslo",
    "email": "ana@mail.example",
    "phone": "+44 20 1111 2222",
}
ORDER = {
    "id": "O-10002", "customer_id": "C-10001", "status": "placed", "placed_on": "2031-05-10", "delivered_on": None,
    "city": "Oslo", "street": "1 Mill Road", "version": 3,
}  # fmt: skip
WORLD: dict[str, Any] = {
    "customers": {"C-10001": {**CUSTOMER, "credit_cents": 500}},
    "orders": {f"O-1000{n}": {**ORDER, "id": f"O-1000{n}"} for n in range(2, 8)},
    "supervisors": {"S-10009": {"id": "S-10009", "grants_up_to_cents": 60_000}},
}
CREDIT = {"customer_id": "C-10001", "amount_cents": 1250, "key": "k1"}
CANCEL = {"order_id": "O-10002", "expected_version": 3, "key": "k2"}


@pytest.fixture
def domain() -> ToolUse:
    return build_plugin("domain", "tool_use")


@pytest.fixture
def desk() -> Desk:
    return Desk(SHOP, WORLD)


def faulty(**fault: Any) -> Desk:
    return Desk(SHOP, WORLD, [fault])


def task_of(domain: ToolUse, scenario: str, *, number: int = 0, split: Split = "train") -> TaskSpec:
    """Task `number` of one kind of request."""
    place = next(place for place, each in enumerate(SCENARIOS) if each.id == scenario)
    return domain.make_task(split, place + number * NUM_SCENARIOS, 0)


def spoken(steps: Sequence[Step]) -> Script:
    return tuple(say_call(each["name"], **each["arguments"]) for each in steps)


async def verdict(domain: ToolUse, task: TaskSpec, script: Script) -> Verdict:
    return await domain.verify(task, await play(domain, task, script, NoPlace()), NoPlace())


async def reward(domain: ToolUse, task: TaskSpec, script: Script) -> float:
    found = await verdict(domain, task, script)
    assert found.reward is not None
    return found.reward


def closed(found: Verdict) -> set[str]:
    return {term.name for term in found.terms if term.weight == 0 and term.value == 0}


# Effects and keys


def test_the_same_key_and_arguments_give_the_same_result_and_no_second_effect(desk: Desk) -> None:
    first, second = desk.call("give_credit", CREDIT), desk.call("give_credit", CREDIT)
    assert first == second == {"customer_id": "C-10001", "credit_cents": 1750}
    assert len(desk.dump()["credits"]) == 1
    assert desk.dump()["customers"]["C-10001"]["credit_cents"] == 1750


def test_another_key_does_it_again(desk: Desk) -> None:
    desk.call("give_credit", CREDIT)
    assert desk.call("give_credit", {**CREDIT, "key": "k9"})["credit_cents"] == 3000
    assert len(desk.dump()["credits"]) == 2


def test_the_same_key_with_other_arguments_or_another_tool_is_an_error(desk: Desk) -> None:
    desk.call("give_credit", CREDIT)
    before = desk.dump(private=True)
    assert desk.call("give_credit", {**CREDIT, "amount_cents": 1})["error"]["code"] == "key_reused"
    assert desk.call("cancel_order", {**CANCEL, "key": "k1"})["error"]["code"] == "key_reused"
    assert desk.dump(private=True) == before


def test_a_refused_effect_leaves_nothing_not_even_its_key(desk: Desk) -> None:
    before = desk.dump(private=True)
    assert desk.call("cancel_order", {**CANCEL, "expected_version": 2})["error"]["code"] == "stale_version"
    assert desk.call("give_credit", {**CREDIT, "customer_id": "C-99999"})["error"]["code"] == "not_found"
    assert desk.dump(private=True) == before
    assert desk.call("cancel_order", CANCEL)["status"] == "cancelled"
    assert desk.call("cancel_order", {**CANCEL, "key": "k3", "expected_version": 4})["error"]["code"] == "wrong_status"


def test_the_order_of_independent_effects_leaves_no_trace() -> None:
    calls = [("give_credit", CREDIT), ("cancel_order", CANCEL), ("give_credit", {**CREDIT, "key": "k3"})]
    assert replay(SHOP, WORLD, (), calls).dump() == replay(SHOP, WORLD, (), calls[::-1]).dump()


def test_what_is_looked_up_is_only_looked_up(desk: Desk) -> None:
    before = desk.dump(private=True)
    assert desk.call("find_customers", {"name": "ruiz"})["items"] == [
        {"id": "C-10001", "name": "Ana Ruiz", "city": "Oslo"}
    ]
    assert desk.call("get_customer", {"customer_id": "C-10001"})["credit_cents"] == 500
    assert desk.call("get_order", {"order_id": "x' OR 1=1 --"})["error"]["code"] == "not_found"
    assert desk.dump(private=True) == before


# Faults


def test_a_transient_fault_does_nothing_and_the_next_call_succeeds() -> None:
    desk = faulty(tool="give_credit", call=1, kind="transient")
    assert desk.call("give_credit", CREDIT)["error"]["code"] == "unavailable"
    assert desk.dump()["credits"] == {}
    assert desk.call("give_credit", CREDIT)["credit_cents"] == 1750
    assert [each["fault"] for each in desk.log] == ["transient", ""]


@pytest.mark.parametrize("lands", [True, False])
def test_after_a_timeout_the_same_call_is_safe_whether_it_landed_or_not(lands: bool) -> None:
    desk = faulty(tool="give_credit", call=1, kind="timeout", lands=lands)
    said = desk.call("give_credit", CREDIT)
    assert said["error"]["code"] == "timeout"
    assert len(desk.dump()["credits"]) == int(lands)
    assert desk.call("give_credit", CREDIT) == {"customer_id": "C-10001", "credit_cents": 1750}
    assert len(desk.dump()["credits"]) == 1


def test_a_timeout_says_the_same_whether_it_landed_or_not() -> None:
    both = [faulty(tool="give_credit", call=1, kind="timeout", lands=lands) for lands in (True, False)]
    assert both[0].call("give_credit", CREDIT) == both[1].call("give_credit", CREDIT)


def test_a_conflict_makes_the_version_stale() -> None:
    desk = faulty(
        tool="cancel_order", call=1, kind="conflict", table="orders", id="O-10002", set={"street": "9 High Street"}
    )
    assert desk.call("cancel_order", CANCEL)["error"]["code"] == "stale_version"
    row = desk.call("get_order", {"order_id": "O-10002"})
    assert (row["street"], row["version"], row["status"]) == ("9 High Street", 4, "placed")
    assert desk.call("cancel_order", {**CANCEL, "expected_version": 4})["status"] == "cancelled"


def test_a_cut_page_says_where_to_go_on() -> None:
    desk, whole = faulty(tool="list_orders", call=1, kind="cut", keep=1), Desk(SHOP, WORLD)
    cut = desk.call("list_orders", {"customer_id": "C-10001"})
    rest = desk.call("list_orders", {"customer_id": "C-10001", "cursor": cut["next_cursor"]})
    last = desk.call("list_orders", {"customer_id": "C-10001", "cursor": rest["next_cursor"]})
    assert [len(each["items"]) for each in (cut, rest, last)] == [1, 4, 1]
    assert last["next_cursor"] is None
    assert len(whole.call("list_orders", {"customer_id": "C-10001"})["items"]) == 4


# States and their differences

ROWS = st.dictionaries(
    st.sampled_from(["A-1", "A-2", "A-3"]),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2) | st.none() | st.text(max_size=2)),
)
DUMPS = st.fixed_dictionaries({"first": ROWS, "second": ROWS})


@settings(deadline=None)
@given(DUMPS, DUMPS)
def test_the_difference_leads_from_one_state_to_the_other(before: state.Dump, after: state.Dump) -> None:
    assert state.apply(before, state.diff(before, after)) == after
    assert state.diff(before, before) == {}
    assert (state.diff(before, after) == {}) == (before == after)


def test_texts_agree_by_what_they_say_and_lines_stay_lines() -> None:
    assert state.same_row({"title": " Team  LUNCH", "version": 1}, {"title": "team lunch.", "version": 7})
    assert not state.same_row({"content": "one two"}, {"content": "one\ntwo"})
    assert not state.same_row({"n": 1}, {"n": 2})
    assert not state.same_row(None, {"n": 1})


CASES = st.tuples(st.integers(0, NUM_SCENARIOS - 1), st.randoms(use_true_random=False))


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_any_calls_replayed_give_the_same_state_and_repeated_effects_change_nothing(case: Any) -> None:
    """Steps of the reference and of mistakes in any order, each of them twice with the same key."""
    index, rng = case
    task = ToolUse(ToolUse.Config()).make_task("train", index, 7)
    service, hidden = SERVICES[task.public["service"]], task.hidden
    steps = [each for script in (hidden["oracle"], *hidden["wrong"]) for each in script[:-1]]
    calls = [(each["name"], each["arguments"]) for each in rng.sample(steps, min(8, len(steps)))]
    desk = replay(service, hidden["world"], hidden["faults"], calls)
    logged = [(each["tool"], each["arguments"]) for each in desk.log]
    assert replay(service, hidden["world"], hidden["faults"], logged).dump(private=True) == desk.dump(private=True)
    before = desk.dump(private=True)
    done = [each for each, entry in zip(calls, desk.log, strict=True) if not entry["error"]]
    for name, arguments in done:
        if service.operation(name).effect:
            desk.call(name, arguments)
    assert desk.dump(private=True) == before


# Answers and secrets


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ("12.50", True), ("$12.5", True), ("Refunded 12.50 dollars for order O-10002 on 2031-05-14.", True),
        ("1250 cents", True), ("12.50 dollars, that is 1250 cents", True), ("１２.５０", True),
        ("1250", False), ("12.50 or 13.50", False), ("12.51", False), ("", False), ("twelve fifty", False),
    ],
)  # fmt: skip
def test_an_amount_is_held_when_every_number_is_that_amount(answer: str, held: bool) -> None:
    assert scoring.facts_held(answer, [{"kind": "amount", "value": 1250}]) == float(held)


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ("O-10002, O-10003", True), ("Cancelled: o-10003 and O-10002.", True), ("O-10002", False),
        ("O-10002, O-10003, O-10004", False), ("10002 and 10003", False), ("", False),
    ],
)  # fmt: skip
def test_ids_are_held_when_they_are_exactly_these(answer: str, held: bool) -> None:
    assert scoring.facts_held(answer, [{"kind": "ids", "value": ["O-10002", "O-10003"]}]) == float(held)


def test_thousands_may_be_separated_and_no_fact_wanted_is_held() -> None:
    assert scoring.facts_held("1,234.05", [{"kind": "amount", "value": 123_405}]) == 1.0
    assert scoring.facts_held("whatever", []) == 1.0


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("call +44 20 1111 2222", True), ("0044? no: 44-20-1111-2222", True), ("442011112222", True),
        ("44 20 1111", False), ("A-44201 and 1111 2222", False), ("", False),
    ],
)  # fmt: skip
def test_a_secret_is_found_however_it_is_spaced(text: str, tells: bool) -> None:
    assert bool(scoring.told(text, ["+44 20 1111 2222"])) is tells


def test_an_id_is_no_secret_number() -> None:
    assert scoring.told("A-54321 pays", ["54321"]) == []
    assert scoring.told("it is 543.21", ["54321"]) == ["54321"]


# Scores


async def test_a_cancelled_order_scores_by_hand(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    (key,) = task.hidden["wanted"]["orders"]
    row = task.hidden["world"]["orders"][key]
    assert row["status"] == "placed"
    assert key in task.prompt[-1].content
    assert task.hidden["wanted"]["orders"][key]["after"] == {
        **row, "status": "cancelled", "version": row["version"] + 1,
    }  # fmt: skip
    cancel = say_call("cancel_order", order_id=key, expected_version=row["version"], key="mine")
    finish = say_call("finish")
    assert await reward(domain, task, (cancel, finish)) == 1.0
    assert await reward(domain, task, (cancel + finish,)) == 1.0
    # One turn more than the reference's 3, of 6 to spare; two of three actions were no calls.
    assert task.max_turns == 9
    slow = ("I think.", "Hm.", cancel, finish)
    assert await reward(domain, task, slow) == pytest.approx(0.7 + 0.1 * (1 - 0.5 / 6) + 0.1 * (1 - 2 / 3) + 0.1)
    assert await reward(domain, task, (finish,)) == 0.0


async def test_part_of_the_changes_earns_its_share_and_an_answer_no_more_than_that(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_open")
    cancels = [each for each in task.hidden["oracle"] if each["name"] == "cancel_order"]
    answer = task.hidden["oracle"][-1]
    assert len(cancels) == 3
    found = [await reward(domain, task, spoken([*cancels[:num], answer])) for num in range(4)]
    assert found == pytest.approx([0.0, 0.7 / 3, 1.4 / 3, 1.0])
    wrong = say_call("finish", answer="None.")
    assert await reward(domain, task, (*spoken(cancels[:1]), wrong)) == pytest.approx(0.7 * 0.75 / 3)


async def test_a_fault_that_is_not_overcome_costs_the_recovery(domain: ToolUse) -> None:
    task = next(t for n in range(9) if (t := task_of(domain, "give_credit", number=n)).hidden["faults"][0]["lands"])
    given, _, ending = task.hidden["oracle"]
    found = await verdict(domain, task, spoken([given, ending]))
    assert found.passed, "the state is as wanted, by luck"
    assert found.reward == pytest.approx(0.9)
    assert (await verdict(domain, task, spoken([given, given, ending]))).reward == 1.0


async def test_an_effect_nobody_asked_for_takes_everything(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    *calls, ending = task.hidden["oracle"]
    other = next(key for key in task.hidden["world"]["customers"])
    extra: Step = {"name": "give_credit", "arguments": {"customer_id": other, "amount_cents": 5, "key": "x"}}
    found = await verdict(domain, task, spoken([*calls, extra, ending]))
    assert (found.reward, found.passed, closed(found)) == (0.0, False, {"only_wanted_rows"})


async def test_a_secret_in_the_answer_or_an_argument_takes_everything(domain: ToolUse) -> None:
    task = task_of(domain, "refund_one")
    *calls, ending = task.hidden["oracle"]
    secret = next(iter(task.hidden["world"]["customers"].values()))["phone"]
    tell: Step = {"name": "finish", "arguments": {"answer": f"{ending['arguments']['answer']} {secret}"}}
    look: Step = {"name": "find_customers", "arguments": {"name": secret}}
    for steps in ([*calls, tell], [*calls, look, ending]):
        found = await verdict(domain, task, spoken(steps))
        assert (found.reward, closed(found)) == (0.0, {"no_secret_told"})


@pytest.mark.parametrize(
    ("scenario", "number_of_tries"),
    [("refund_two", 12), ("book_outside", 12), ("share_secret", 12), ("transfer_below", 12), ("credit_too_much", 12)],
)
async def test_breaking_a_rule_takes_everything(domain: ToolUse, scenario: str, number_of_tries: int) -> None:
    gates: set[str] = set()
    for number in range(number_of_tries):
        task = task_of(domain, scenario, number=number)
        for steps in task.hidden["wrong"]:
            found = await verdict(domain, task, spoken(steps))
            gates |= closed(found)
            assert not closed(found) or found.reward == 0.0
    assert "policy" in gates


async def test_a_refusal_is_right_only_with_its_reason_and_subject(domain: ToolUse) -> None:
    task = next(
        t for n in range(20) if (t := task_of(domain, "transfer_below", number=n)).hidden["ending"]["name"] == "refuse"
    )
    subject = task.hidden["ending"]["arguments"]["subject"]
    reasons = next(tool for tool in task.tools if tool.name == "refuse").parameters["properties"]["reason"]["enum"]
    found = {r: await reward(domain, task, (say_call("refuse", reason=r, subject=subject),)) for r in reasons}
    assert found == {reason: 1.0 if reason == "below_minimum" else 0.0 for reason in reasons}
    assert await reward(domain, task, (say_call("refuse", reason="below_minimum", subject="A-1"),)) == 0.0
    assert await reward(domain, task, (say_call("finish"),)) == 0.0


@pytest.mark.parametrize(
    "scenario",
    [
        "refund_late", "book_outside", "cancel_foreign", "share_secret", "share_confidential", "share_too_often",
        "delete_foreign", "transfer_below", "transfer_frozen", "transfer_large", "refund_two", "credit_too_much",
    ],
)  # fmt: skip
def test_requests_of_one_wording_are_granted_and_refused(domain: ToolUse, scenario: str) -> None:
    endings = {task_of(domain, scenario, number=number).hidden["ending"]["name"] for number in range(16)}
    assert endings == {"finish", "refuse"}


async def test_a_submission_that_no_episode_left_is_graded_zero(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    left = await play(domain, task, domain.solutions(task).oracle, NoPlace())
    value = json.loads(left.submission)
    (key,) = value["changes"]["orders"]
    row = value["changes"]["orders"][key]
    nothing_like_it = ["", "null", "[]", "{}", '"x"', '{"changes": {}, "log": [], "ending": []}', "[" * 5000]
    other_rows = ({**row, "before": None}, {**row, "after": None}, {**row, "after": 3})
    other_changes = [{"orders": {key: each}} for each in other_rows]
    invented = {"refunds": {"RF-1": {"before": None, "after": {"id": "RF-1"}}}}
    forged = [
        *nothing_like_it,
        *(json.dumps({**value, "changes": each}) for each in other_changes),
        *(json.dumps({**value, "changes": each}) for each in ({"orders": 3}, {**value["changes"], **invented})),
        *(json.dumps({**value, "log": each}) for each in (3, [3], [{"tool": "x"}])),
    ]
    for submission in forged:
        found = await domain.verify(task, Outcome(submission=submission, metrics=left.metrics), NoPlace())
        assert (found.valid, found.passed, found.reward) == (True, False, 0.0), submission
    for metrics in ({}, {"num_turns": float("nan")}, {"num_turns": -5.0}):
        found = await domain.verify(task, Outcome(submission=left.submission, metrics=metrics), NoPlace())
        assert found.passed
        assert 0.7 <= (found.reward or 0.0) <= 1.0


# Episodes


async def test_a_call_that_does_not_fit_costs_a_turn_and_changes_nothing(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    episode = await domain.open(task, NoPlace())
    before = await episode.state_hash()
    for text in ("Hello.", say_call("cancel_order", order_id=1), say_call("drop_tables"), '<tool_call>{"name"'):
        reply = await episode.reply(text)
        assert (reply.valid_action, reply.done, reply.action) == (False, False, "")
    assert await episode.state_hash() == before
    left = await episode.outcome()
    assert left.metrics["num_invalid_actions"] == 4.0
    assert json.loads(left.submission)["log"] == []


async def test_an_episode_ends_with_its_turns_and_its_outcome_stays(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    episode = await domain.open(task, NoPlace())
    replies = [await episode.reply("Hm.") for _ in range(task.max_turns)]
    assert [reply.done for reply in replies] == [False] * (task.max_turns - 1) + [True]
    kept, digest = await episode.outcome(), await episode.state_hash()
    await episode.close()
    await episode.close()
    assert (await episode.outcome(), await episode.state_hash()) == (kept, digest)


async def test_what_comes_after_the_ending_does_not_happen(domain: ToolUse) -> None:
    task = task_of(domain, "cancel_one")
    *calls, ending = spoken(task.hidden["oracle"])
    episode = await domain.open(task, NoPlace())
    reply = await episode.reply("\n".join([ending, *calls]))
    assert reply.done
    assert json.loads((await episode.outcome()).submission)["changes"] == {}


async def test_equal_completions_give_equal_digests_and_other_states_others(domain: ToolUse) -> None:
    task = task_of(domain, "book_and_invite")
    digests = []
    for _ in range(2):
        episode = await domain.open(task, NoPlace())
        digests.append([await _after(episode, text) for text in domain.solutions(task).oracle])
        await episode.close()
    assert digests[0] == digests[1]
    assert len(set(digests[0])) > 3


async def _after(episode: Any, text: str) -> str:
    await episode.reply(text)
    return await episode.state_hash()


# Tasks


def test_there_are_many_requests_to_several_services_on_every_level() -> None:
    assert len({each.id for each in SCENARIOS}) == NUM_SCENARIOS >= 24
    assert {each.service for each in SCENARIOS} == set(SERVICES) == {"shop", "rooms", "files", "bank"}
    assert {(each.service, each.level) for each in SCENARIOS} == set(product(SERVICES, (1, 2, 3)))
    for service in SERVICES.values():
        assert 6 <= len(service.operations) <= 12
        assert len(service.tools) == len(service.operations) + 2


def test_services_and_levels_can_be_chosen() -> None:
    domain = build_plugin("domain", "tool_use", {"services": ["bank"], "levels": [1]})
    made = take(domain, "train", 6, 0)
    assert {(task.public["service"], task.level) for task in made} == {("bank", 1)}
    assert domain.card().levels == (1,)
    with pytest.raises(EnvironmentAuthorError, match="no services"):
        build_plugin("domain", "tool_use", {"services": ["post"]})
    with pytest.raises(EnvironmentAuthorError, match="levels"):
        build_plugin("domain", "tool_use", {"levels": [4]})
    with pytest.raises(ConfigurationError):
        build_plugin("domain", "tool_use", {"services": []})


def test_the_prompt_tells_the_rules_with_their_limits(domain: ToolUse) -> None:
    task = task_of(domain, "refund_late")
    said = task.prompt[0].content
    assert f"at most {task.hidden['limits']['window']} days" in said
    assert "Today is 2031-05-14" in said
    assert "{" not in said + task.prompt[1].content


def test_faults_of_every_kind_occur(domain: ToolUse) -> None:
    kinds = {fault["kind"] for task in take(domain, "train", NUM_SCENARIOS, 0) for fault in task.hidden["faults"]}
    assert kinds == {"transient", "timeout", "conflict", "cut"}


async def test_a_task_that_cannot_be_opened_says_why(domain: ToolUse) -> None:
    task = replace(task_of(domain, "cancel_one"), hidden={}, public={"service": "post"})
    with pytest.raises(EnvironmentAuthorError, match=r"lacks hidden 'world'.*a known service"):
        await domain.open(task, NoPlace())
    with pytest.raises(EnvironmentAuthorError, match="add the reference calls"):
        domain.solutions(task)
    found = await domain.verify(task, Outcome(submission=""), NoPlace())
    assert found.failure is not None
    assert found.failure.cause is Cause.ENVIRONMENT


def test_a_wanted_breach_of_the_rules_is_found_by_looking(domain: ToolUse) -> None:
    _, forbidden, leaking = domain.defective_tasks(0)
    assert [said for said in domain.check(forbidden) if "above the limit" in said]
    assert [said for said in domain.check(leaking) if "the prompt holds the call" in said]


def asked_for(task: TaskSpec, pattern: str) -> str:
    """The first text of this form in the request."""
    found = re.search(pattern, task.prompt[-1].content)
    assert found, task.prompt[-1].content
    return found.group()


def statuses(task: TaskSpec, table: str, status: str) -> set[str]:
    """Rows of the table that are wanted to end with the status."""
    return {key for key, each in task.hidden["wanted"][table].items() if each["after"]["status"] == status}


@pytest.mark.parametrize("number", range(4))
def test_what_is_wanted_follows_from_the_request_and_the_data(domain: ToolUse, number: int) -> None:
    """Worked out from the words and the rows alone, without the reference steps."""
    bank = task_of(domain, "pay_due", number=number)
    account, day = asked_for(bank, r"A-\d+"), asked_for(bank, r"\d{4}-\d\d-\d\d")
    bills = [row for row in bank.hidden["world"]["bills"].values() if row["account_id"] == account]
    due = [row for row in bills if row["status"] == "open" and row["due_on"] <= day]
    assert statuses(bank, "bills", "paid") == {row["id"] for row in due}
    total = sum(row["amount_cents"] for row in due)
    assert bank.hidden["facts"] == [{"kind": "amount", "value": total}]
    changed = bank.hidden["wanted"]["accounts"][account]
    assert changed["before"]["balance_cents"] - changed["after"]["balance_cents"] == total

    shop = task_of(domain, "cancel_open", number=number)
    customer, orders = asked_for(shop, r"C-\d+"), shop.hidden["world"]["orders"].values()
    placed = {row["id"] for row in orders if row["customer_id"] == customer and row["status"] == "placed"}
    assert statuses(shop, "orders", "cancelled") == set(shop.hidden["facts"][0]["value"]) == placed

    rooms = task_of(domain, "clear_day", number=number)
    values = asked_for(rooms, r"E-\d+"), asked_for(rooms, r"M-\d+"), asked_for(rooms, r"\d{4}-\d\d-\d\d")
    mine = [row for row in rooms.hidden["world"]["bookings"].values() if _booked(row) == values]
    assert statuses(rooms, "bookings", "cancelled") == {row["id"] for row in mine}

    files = task_of(domain, "archive_own", number=number)
    who, (old, new) = asked_for(files, r"U-\d+"), re.findall(r"'([a-z0-9 ]+)'", files.prompt[-1].content)
    own = [row for row in files.hidden["world"]["files"].values() if (row["owner_id"], row["folder"]) == (who, old)]
    moved = {key: each["after"]["folder"] for key, each in files.hidden["wanted"]["files"].items()}
    assert moved == {row["id"]: new for row in own}


def _booked(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["organizer_id"], row["room_id"], row["date"]


def test_faults_change_the_way_but_not_what_is_wanted(domain: ToolUse) -> None:
    """A reference without faults leads to the same state, unless someone else changed a row."""
    for task in take(domain, "train", 2 * NUM_SCENARIOS, 4):
        service, hidden = SERVICES[task.public["service"]], task.hidden
        if any(fault["kind"] == "conflict" for fault in hidden["faults"]):
            continue
        calls = [(each["name"], each["arguments"]) for each in hidden["oracle"][:-1]]
        before, after = replay(service, hidden["world"], (), ()), replay(service, hidden["world"], (), calls)
        assert state.diff(before.dump(), after.dump()) == hidden["wanted"], task.template
        assert [each["error"] for each in after.log] == [""] * len(calls), task.template


@pytest.mark.parametrize("scenario", ["book_and_invite", "append_line", "ask_foreign"])
async def test_a_rollout_is_replayed_as_it_was_recorded(domain: ToolUse, scenario: str) -> None:
    task = replace(task_of(domain, scenario), max_new_tokens=100_000)
    for script in (domain.solutions(task).oracle, *domain.solutions(task).wrong[:2]):
        said = iter((*script, *["Hm."] * task.max_turns))
        engine = ToyEngine(lambda prompt, i, said=said: next(said))  # type: ignore[misc]
        request = replace(a_request(task), sampling=replace(SAMPLED, max_new_tokens=100_000))
        (trajectory,) = await collect(
            [request], {domain.id: domain}, engine, NoPlace(), max_concurrency=1, deadline_s=60.0, state_hashes=True
        )
        assert trajectory.failure is None
        assert all(turn.state_hash for turn in trajectory.turns)
        result = await replayed(trajectory, task, domain, NoPlace())
        assert (result.standing, result.num_compared, result.ending) == ("equal", len(trajectory.turns), True)


async def check_known_scripts(domain: ToolUse, task: TaskSpec) -> None:
    """Everything the solutions claim, played."""
    known = domain.solutions(task)
    assert domain.check(task) == []
    assert len(known.wrong) >= 5
    assert len(known.equivalent) >= 4
    assert max(map(len, (known.oracle, *known.wrong, *known.equivalent))) <= task.max_turns
    oracle = await verdict(domain, task, known.oracle)
    assert (oracle.passed, oracle.reward) == (True, 1.0), task.template
    assert await reward(domain, task, known.noop) == 0.0, task.template
    for number, script in enumerate(known.wrong):
        found = await verdict(domain, task, script)
        assert found.valid, (task.template, number)
        assert not found.passed, (task.template, number)
    for number, script in enumerate(known.equivalent):
        assert (await verdict(domain, task, script)).passed, (task.template, number)
    rungs = [1.0, *[await reward(domain, task, script) for script in known.ladder], 0.0]
    assert rungs == sorted(rungs, reverse=True), task.template


async def test_every_request_has_sound_scripts(domain: ToolUse) -> None:
    for index in range(NUM_SCENARIOS):
        await check_known_scripts(domain, domain.make_task("heldout" if index % 8 < 4 else "train", index, 11))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [each.id for each in SCENARIOS])
async def test_two_hundred_tasks_of_every_request_have_sound_scripts(domain: ToolUse, scenario: str) -> None:
    seen: set[str] = set()
    splits: tuple[Split, ...] = ("train", "heldout")
    for number, split in product(range(100), splits):
        task = task_of(domain, scenario, number=number, split=split)
        await check_known_scripts(domain, task)
        seen.add(task.content_hash)
    assert len(seen) == 200
