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


class Picture:
    """What the newest event of each stage said. `begin_s` is on the clock of `Event.at_s`."""

    def __init__(self, title: str, begin_s: float, expected_s: float | None = None) -> None:
        self.title = title
        self.begin_s = begin_s
        self.expected_s = expected_s
        self.newest: dict[str, dict[str, Any]] = {}
        self.held_out: dict[str, list[dict[str, Any]]] = {}
        self.quarantine_reasons: dict[str, int] = {}
        self.last: dict[str, Any] | None = None
        self.first_reward: float | None = None
        self._loop_begin_s: float | None = None
        self._loop_first = 0
        self._lock = threading.Lock()

    def apply(self, event: Event) -> None:
        """Take one event in. Counts of an iteration replace those of the one before."""
        with self._lock:
            self.newest[event.stage] = {**self._carried(event), **event.data}
            if event.stage == "inspect" and event.data.get("state") == "quarantined":
                self._count_reason(event.data)
            if event.stage == "verify" and event.data.get("last"):
                self.last = dict(event.data["last"])
            if event.stage == "evaluate" and event.data.get("pass_rate") is not None:
                self.held_out.setdefault(str(event.data.get("domain", "")), []).append(dict(event.data))
            if event.stage == "train":
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
        """One stage's line, empty when there is nothing to say."""
        with self._lock:
            if stage == "evaluate":
                return (self._held_out_lines() or [""])[-1]
            return self._stage_line(stage) if stage in LINES else ""

    def _stage_line(self, stage: str) -> str:
        text = LINES[stage](self)
        label = LABELS.get(stage, stage)
        return f"{label:<{LABEL}}{text}" if text else ""

    def _carried(self, event: Event) -> dict[str, Any]:
        before = self.newest.get(event.stage, {})
        same_iteration = before.get("iteration") == event.data.get("iteration", before.get("iteration"))
        return before if same_iteration or event.stage in ("run", "train") else {}

    def _count_reason(self, data: dict[str, Any]) -> None:
        """Inspection tells the reasons task by task, as `probe: what it found`."""
        probe = str(next(iter(data.get("reasons") or ["no reason"]))).partition(":")[0]
        self.quarantine_reasons[probe] = self.quarantine_reasons.get(probe, 0) + 1

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
        return [
            f"{'held-out':<{LABEL}}{one_line(domain, 24)}  " + " -> ".join(map(_rate, _ends(seen)))
            for domain, seen in self.held_out.items()
        ]

    def _last_line(self) -> list[str]:
        if not self.last:
            return []
        reward = self.last.get("reward")
        shown = "invalid" if reward is None else f"{reward:.2f}"
        where = f"{one_line(self.last.get('task_id', ''), 40)}  {shown}"
        note = one_line(self.last.get("note") or "", 60)
        return [f"{'last':<{LABEL}}{where}  {note}".rstrip() + f"   assay show {self.last.get('trajectory_id', '')}"]


def _ends(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return seen if len(seen) < 4 else [seen[0], seen[1], seen[-1]]


def _rate(data: dict[str, Any]) -> str:
    interval = ""
    if data.get("low") is not None and data.get("high") is not None:
        interval = f" [{data['low']:.2f}, {data['high']:.2f}]"
    return f"{one_line(data.get('policy_name', ''))} {data['pass_rate']:.2f}{interval}"


def _progress(data: dict[str, Any], unit: str = "") -> str:
    done, total = data.get("done"), data.get("total")
    if done is None:
        return ""
    return f"{done}/{total}{unit}" if total is not None and total != done else f"{done}{unit}"


def _inspect(picture: Picture) -> str:
    data = picture.newest.get("inspect", {})
    told = data.get("reasons")
    reasons = told if isinstance(told, dict) else picture.quarantine_reasons
    quarantined = f"{data.get('quarantined')} quarantined" + (f" ({counted(reasons)})" if reasons else "")
    draft = f"{data['draft']} unproven" if data.get("draft") else ""
    trusted = _n(data, "trusted")
    return _join(_progress(data, " tasks"), trusted, quarantined if data.get("quarantined") else "", draft)


def _solvability(picture: Picture) -> str:
    data = picture.newest.get("solvability", {})
    bands = [_n(data, "trainable"), _n(data, "saturated"), _n(data, "too_hard", "too hard")]
    return _join(_progress(data), *bands)


def _rollout(picture: Picture) -> str:
    data = picture.newest.get("rollout", {})
    failed = data.get("failed") or {}
    invalid = f"failed {sum(failed.values())} ({counted(failed)})" if failed else ""
    running = f"running {data['running']}" if data.get("running") else ""
    return _join(_iteration(data), _progress(data), invalid, running)


def _verify(picture: Picture) -> str:
    data = picture.newest.get("verify", {})
    invalid = data.get("invalid") or {}
    refused = f"invalid {sum(invalid.values())} ({counted(invalid)})" if invalid else ""
    figures = [f"{key} {data[key]}" for key in ("valid", "passed") if data.get(key) is not None]
    return _join(_iteration(data), _progress(data), *figures, refused)


def _gate(picture: Picture) -> str:
    data = picture.newest.get("gate", {})
    if "ok" not in data:
        return ""
    return _join("passed" if data["ok"] else "BLOCKED", one_line(data.get("detail") or "", 80))


def _train(picture: Picture) -> str:
    data = picture.newest.get("train", {})
    if not data:
        return ""
    step = "warm start" if data.get("kind") == "sft" else f"step {data.get('iteration')}/{data.get('iterations')}"
    signal = data.get("groups_with_signal_rate")
    loss = data.get("loss")
    return _join(
        step,
        _reward(picture.first_reward, data.get("reward_mean")),
        "" if signal is None else f"groups with signal {signal:.0%}",
        "" if loss is None else f"loss {loss:.3g}",
    )


def _reward(first: float | None, now: float | None) -> str:
    if now is None:
        return ""
    return f"reward {now:.2f}" if first is None or first == now else f"reward {first:.2f} -> {now:.2f}"


def _iteration(data: dict[str, Any]) -> str:
    return f"#{data['iteration']}" if data.get("iteration") is not None else ""


def _n(data: dict[str, Any], key: str, word: str = "") -> str:
    return f"{data[key]} {word or key}" if data.get(key) is not None else ""


def _join(*parts: str) -> str:
    return "  ".join(filter(None, parts))


def _prefect(picture: Picture) -> str:
    return one_line(picture.run("flow_run_url") or "")


LINES: dict[str, Callable[[Picture], str]] = {
    "run": _prefect,
    "inspect": _inspect,
    "solvability": _solvability,
    "rollout": _rollout,
    "verify": _verify,
    "gate": _gate,
    "train": _train,
}
