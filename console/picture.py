"""What a run's progress events say, as the few lines of the live screen. Knows no terminal and no clock.

    Event("rollout", {"iteration": 2, "done": 192, "total": 320, "running": 12})  ->  rollout   #2  192/320  running 12

Unknown stages and keys are ignored; every text from outside is cleaned.
"""

import threading
from collections.abc import Callable
from typing import Any

from assay.progress import Event
from console.output import clock, counted, one_line

LABEL = 10
LABELS = {"run": "prefect", "solvability": "solvable"}
BANDS = {"trainable": "trainable", "saturated": "saturated", "too_hard": "too hard", "unknown": "unknown"}
# Stages whose items have a cause, and the key under which a sender may give the counts itself.
CAUSES = {"inspect": "reasons", "rollout": "failed", "verify": "invalid"}
Row = dict[str, Any]


class Picture:
    """What the newest event of each stage said. `begin_s` is on the clock of `Event.at_s`."""

    def __init__(self, title: str, begin_s: float, expected_s: float | None = None) -> None:
        self.title = title
        self.begin_s = begin_s
        self.expected_s = expected_s
        self.newest: dict[str, Row] = {}
        self.held_out: dict[str, list[Row]] = {}
        self.last: Row | None = None
        self.first_reward: float | None = None
        self._loop_begin_s: float | None = None
        self._loop_first = 0
        self._lock = threading.Lock()

    def apply(self, event: Event) -> None:
        """Take one event in. Counts of one pass over a batch do not leak into the next."""
        stage, data = event.stage, event.data
        with self._lock:
            self.newest[stage] = _folded(stage, self.newest.get(stage, {}), data)
            if stage == "verify" and (data.get("last") or data.get("trajectory_id")):
                self.last = dict(data.get("last") or data)
            if stage == "evaluate" and data.get("pass_rate") is not None:
                self.held_out.setdefault(str(data.get("domain", "")), []).append(dict(data))
            if stage == "train" and not data.get("state"):
                self._expect(event)

    def run(self, key: str, default: Any = None) -> Any:
        """A figure of the run itself: run_id, name, state, policy_name, flow_run_url or store."""
        return self.newest.get("run", {}).get(key, default)

    def lines(self, now_s: float) -> list[str]:
        """The screen, top to bottom; only stages that were heard from have a line."""
        with self._lock:
            body = [line for line in map(self._stage_line, LINES) if line]
            return [self._header(now_s), *body, *self._held_out_lines(), *self._last_line()]

    def line(self, stage: str) -> str:
        """One stage's line, of evaluations the newest domain's; empty when there is nothing to say."""
        with self._lock:
            if stage == "evaluate":
                domain = str(self.newest.get(stage, {}).get("domain", ""))
                return self._held_out_line(domain) if domain in self.held_out else ""
            return self._stage_line(stage) if stage in LINES else ""

    def _stage_line(self, stage: str) -> str:
        text = LINES[stage](self)
        label = LABELS.get(stage, stage)
        return f"{label:<{LABEL}}{text}" if text else ""

    def _expect(self, event: Event) -> None:
        """From the second training step on, the pace so far says when the run ends."""
        data = event.data
        if self.first_reward is None and data.get("kind") != "sft":
            self.first_reward = data.get("reward_mean")
        done, total = data.get("iteration"), data.get("iterations")
        if data.get("kind") == "sft" or not done or not total:
            return
        if self._loop_begin_s is None:
            self._loop_begin_s, self._loop_first = event.at_s, done
        elif done > self._loop_first:
            pace = (event.at_s - self._loop_begin_s) / (done - self._loop_first)
            self.expected_s = event.at_s - self.begin_s + pace * (total - done)

    def _header(self, now_s: float) -> str:
        elapsed = now_s - self.begin_s
        left = f"{one_line(self.run('name') or self.title)}  {self._policy()}".rstrip()
        expected = f" / ~{clock(max(self.expected_s, elapsed))}" if self.expected_s else ""
        return f"{left:<60}  {clock(elapsed)}{expected}"

    def _policy(self) -> str:
        name = self.newest.get("train", {}).get("policy_name") or self.run("policy_name")
        return f"policy {one_line(name)}" if name else ""

    def _held_out_lines(self) -> list[str]:
        return [self._held_out_line(domain) for domain in self.held_out]

    def _held_out_line(self, domain: str) -> str:
        rates = " -> ".join(map(_rate, _ends(self.held_out[domain])))
        return f"{'held-out':<{LABEL}}{one_line(domain, 24)}  {rates}"

    def _last_line(self) -> list[str]:
        if not self.last:
            return []
        reward = self.last.get("reward")
        shown = "invalid" if reward is None else f"{reward:.2f}"
        where = f"{one_line(self.last.get('task_id') or self.last.get('domain') or '', 40)}  {shown}"
        note = one_line(self.last.get("note") or "", 60)
        return [f"{'last':<{LABEL}}{where}  {note}".rstrip() + f"   assay show {self.last.get('trajectory_id', '')}"]


def _folded(stage: str, before: Row, data: Row) -> Row:
    """The stage's figures after `data`. What is told item by item (a cause, a domain's share) is counted here."""
    if stage == "run":
        return {**before, **data}
    if stage == "train":
        return {**before, "state": None, **data}
    if stage == "solvability":
        return {"by_domain": {**before.get("by_domain", {}), data.get("domain"): data}}
    if stage in CAUSES and _new_pass(before, data):
        before = {}
    causes = dict(before.get("causes", {}))
    told = data.get(CAUSES.get(stage, ""))
    cause = data.get("cause") or _quarantined_by(data)
    if isinstance(told, dict):
        causes = dict(told)
    elif cause:
        causes[cause] = causes.get(cause, 0) + 1
    return {**before, **data, "causes": causes}


def _new_pass(before: Row, data: Row) -> bool:
    """Another iteration or purpose, or a count that begins again."""
    changed = any(before.get(key) != data.get(key, before.get(key)) for key in ("iteration", "purpose"))
    return changed or (data.get("done") or 0) <= (before.get("done") or 0)


def _quarantined_by(data: Row) -> str:
    """The probe that quarantined a task: reasons read `probe: what it found`."""
    if data.get("state") != "quarantined":
        return ""
    return str(next(iter(data.get("reasons") or ["no reason"]))).partition(":")[0]


def _ends(seen: list[Row]) -> list[Row]:
    return seen if len(seen) < 4 else [seen[0], seen[1], seen[-1]]


def _rate(data: Row) -> str:
    interval = ""
    if data.get("low") is not None and data.get("high") is not None:
        interval = f" [{data['low']:.2f}, {data['high']:.2f}]"
    return f"{one_line(data.get('policy_name', ''))} {data['pass_rate']:.2f}{interval}"


def _progress(data: Row, unit: str = "") -> str:
    done, total = data.get("done"), data.get("total")
    if done is None:
        return ""
    return f"{done}/{total}{unit}" if total is not None and total != done else f"{done}{unit}"


def _inspect(picture: Picture) -> str:
    data = picture.newest.get("inspect", {})
    quarantined = f"{data['quarantined']} quarantined{_why(data)}" if data.get("quarantined") else ""
    draft = f"{data['draft']} unproven" if data.get("draft") else ""
    return _join(_progress(data, " tasks"), _n(data, "trusted"), quarantined, draft)


def _solvability(picture: Picture) -> str:
    shares = picture.newest.get("solvability", {}).get("by_domain", {}).values()
    totals = {key: sum(share.get(key) or 0 for share in shares) for key in BANDS}
    done = sum(share.get("done") or 0 for share in shares)
    return _join(f"{done} tasks", *(f"{n} {BANDS[key]}" for key, n in totals.items() if n)) if done else ""


def _rollout(picture: Picture) -> str:
    data = picture.newest.get("rollout", {})
    running = f"running {data['running']}" if data.get("running") else ""
    return _join(_pass(data), _progress(data), _faults("failed", data), running)


def _verify(picture: Picture) -> str:
    data = picture.newest.get("verify", {})
    figures = [f"{key} {data[key]}" for key in ("valid", "passed") if data.get(key) is not None]
    return _join(_pass(data), _progress(data), *figures, _faults("invalid", data))


def _gate(picture: Picture) -> str:
    data = picture.newest.get("gate", {})
    if "num_rules" in data:
        broken = one_line("; ".join(data.get("broken") or ()), 80)
        return _join("BLOCKED" if data["num_broken"] else "passed", f"{data['num_rules']} rules", broken)
    if "ok" in data:
        return _join("passed" if data["ok"] else "BLOCKED", one_line(data.get("detail") or "", 80))
    return ""


def _train(picture: Picture) -> str:
    data = picture.newest.get("train", {})
    if not data:
        return ""
    of = f"/{data['iterations']}" if data.get("iterations") else ""
    step = "warm start" if data.get("kind") == "sft" else f"step {data.get('iteration')}{of}"
    if data.get("state"):  # the figures at hand are of the step before
        return _join(step, one_line(data["state"]))
    signal, loss = data.get("groups_with_signal_rate"), data.get("loss")
    return _join(
        step,
        _reward(picture.first_reward, data.get("reward_mean")),
        "" if signal is None else f"groups with signal {signal:.0%}",
        "" if loss is None else f"loss {loss:.3g}",
    )


def _faults(word: str, data: Row) -> str:
    causes = data.get("causes", {})
    return f"{word} {sum(causes.values())}{_why(data)}" if causes else ""


def _why(data: Row) -> str:
    return f" ({counted(data['causes'])})" if data.get("causes") else ""


def _pass(data: Row) -> str:
    """Which pass the counts are of: `#2`, `evaluation`."""
    iteration = f"#{data['iteration']}" if data.get("iteration") is not None else ""
    return _join(iteration, one_line(data.get("purpose") or ""))


def _reward(first: float | None, now: float | None) -> str:
    if now is None:
        return ""
    return f"reward {now:.2f}" if first is None or first == now else f"reward {first:.2f} -> {now:.2f}"


def _n(data: Row, key: str, word: str = "") -> str:
    return f"{data[key]} {word or key}" if data.get(key) is not None else ""


def _join(*parts: str) -> str:
    return "  ".join(filter(None, parts))


def _run(picture: Picture) -> str:
    return _join(one_line(picture.run("flow_run_url") or ""), one_line(picture.run("message") or "", 80))


LINES: dict[str, Callable[[Picture], str]] = {
    "run": _run,
    "inspect": _inspect,
    "solvability": _solvability,
    "rollout": _rollout,
    "verify": _verify,
    "gate": _gate,
    "train": _train,
}
