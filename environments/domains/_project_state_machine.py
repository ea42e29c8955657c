"""State machines: rules in text, guards, undo, a log. One kind of project; see `_project_kind`."""

from random import Random
from typing import Any

from environments.domains._project_kind import Case, Kind, Values

KIND = Kind(
    id="state_machine",
    summary="State machines from a table of rules, with guards, undo and a log.",
    library="rules",
    features={
        "unknown": ("stay", "fail"),
        "undo": (True, False),
        "wildcard": (True, False),
        "limit": (True, False),
    },
    constants={
        "pkg": ("flow", "machine", "states", "orders"),
        "Machine": ("Machine", "Automaton", "Workflow"),
        "arrow": ("->", "=>"),
        "fire": ("fire", "send", "feed"),
        "most": (2, 3),
        "depth": (2, 3, 4),
        "star": ("*", "any"),
    },
    modules={
        "rules": '''
"""Lines of rules to records."""


class BadRule(Exception):
    pass


class Rule:

    def __init__(self, source, event, target, least=0):
        self.source = source
        self.event = event
        self.target = target
        self.least = least


def parts_of(line, mark):
    """Both sides of a mark, without spaces around them."""
    left, found, right = line.partition(mark)
    if not found:
        raise BadRule(line.strip())
    return (left.strip(), right.strip())


def read_rule(line, arrow='$arrow'):
    """A rule like `idle start $arrow running if 3`."""
    left, right = parts_of(line, arrow)
    words = left.split()
    if len(words) != 2:
        raise BadRule(line.strip())
    target, mark, least = right.partition(' if ')
    return Rule(words[0], words[1], target.strip(), int(least) if mark else 0)


def read_rules(text):
    """All rules of a text, one a line; empty lines do not count."""
    for line in text.split('\\n'):
        if line.strip():
            yield read_rule(line)
''',
        "table": '''
"""Which rule applies."""


class Table:

    def __init__(self, rules):
        self.rules = list(rules)
        self._cached_states = None

    def states(self):
        """All states by name, in order."""
        if self._cached_states is None:
            found = {}
            for rule in self.rules:
                if rule.source != '$star':                          #? wildcard
                    found[rule.source] = True                       #? wildcard
                found[rule.source] = True                           #? !wildcard
                found[rule.target] = True
            self._cached_states = sorted(found)
        return self._cached_states

    def add(self, rule):
        self.rules.append(rule)
        self._cached_states = None

    def match(self, state, event, amount):
        """The first rule for a state, an event and an amount; None when there is none."""
        for rule in self.rules:
            if rule.event != event or amount < rule.least:
                continue
            if rule.source == state:
                return rule
        for rule in self.rules:                                                         #? wildcard
            if rule.source == '$star' and rule.event == event and (amount >= rule.least):   #? wildcard
                return rule                                                             #? wildcard
        return None
''',
        "history": '''
"""What has happened."""


class History:

    def __init__(self, depth=$depth, steps=None):
        if steps is None:
            steps = []
        self.depth = depth
        self.steps = steps
        self.visits = {}

    def record(self, source, target):
        """Remember a step; the oldest are forgotten beyond the depth."""
        self.steps.append(source)
        if len(self.steps) > self.depth:
            self.steps = self.steps[-self.depth:]
        self.visits[target] = self.visits.get(target, 0) + 1

    def back(self):
        """The state before the last step, None when no step is known."""
        if not self.steps:
            return None
        return self.steps.pop()

    def most_visited(self):
        """The state entered most often, the first by name among equals."""
        if not self.visits:
            return None
        return min(self.visits, key=lambda state: (-self.visits[state], state))
''',
        "machine": '''
"""A machine in a state."""
from $pkg.history import History
from $lib.rules import read_rule, read_rules
from $pkg.table import Table


class Stuck(Exception):
    pass


class $Machine:

    def __init__(self, text, start):
        self.table = Table(read_rules(text))
        self.state = start
        self.history = History()

    def extend(self, line):
        self.table.add(read_rule(line))
        return self.table.states()

    def $fire(self, event, amount=0):
        """Go to the next state and return it."""
        rule = self.table.match(self.state, event, amount)
        if rule is None:
            raise Stuck(f'{event} in {self.state}')                                     #? unknown=fail
            return self.state                                                           #? unknown=stay
        if self.history.visits.get(rule.target, 0) >= $most and rule.target != self.state:  #? limit
            raise Stuck(f'{rule.target} is full')                                       #? limit
        self.history.record(self.state, rule.target)
        self.state = rule.target
        return self.state

    def undo(self):                                                                     #? undo
        """Return to the state before the last step."""                                 #? undo
        before = self.history.back()                                                    #? undo
        if before is not None:                                                          #? undo
            self.state = before                                                         #? undo
        return self.state                                                               #? undo
''',
        "app": '''
"""Machines as one function."""
from $pkg.machine import $Machine, Stuck
from $lib.rules import BadRule


def perform(machine, event):
    if event[0] == 'states':
        return machine.table.states()
    if event[0] == 'rule':
        return machine.extend(event[1])
    if event[0] == 'favourite':
        return machine.history.most_visited()
    if event[0] == 'undo':                                          #? undo
        return machine.undo()                                       #? undo
    return machine.$fire(*event)


def run(rules, start, events):
    """Results of events in turn, or the rule that is bad."""
    try:
        machine = $Machine(rules, start)
    except BadRule as error:
        return f'bad rule: {error}'
    results = []
    for event in events:
        try:
            results.append(perform(machine, event))
        except Stuck as error:
            results.append(f'stuck: {error}')
        except BadRule as error:
            results.append(f'bad rule: {error}')
    return results
''',
    },
    spec="""
- `run(rules, start, events)`: a rule is a line `state event $arrow target`, with ` if 3` at its end for amounts of 3 and more only. Empty lines do not count; without the arrow, or without two words before it, it is a bad rule.
- An event is a name and an amount (0 if left out); the first rule that fits the state, the event and the amount applies.
- A rule for the state `$star` fits every state, when no rule for the state itself fits; `$star` is no state.     #? wildcard
- An event without a rule leaves the state.                                           #? unknown=stay
- An event without a rule is `stuck: event in state`, and leaves the state.           #? unknown=fail
- A state can be entered $most times; then it is `stuck: state is full`, unless the machine is in it already.     #? limit
- `undo` returns to the state before the last step and gives it; the last $depth steps can be undone, undoing is no step and does not count as entering.     #? undo
- `states` lists all states in order, `rule` adds a rule and lists them, `favourite` is the state entered most often, the first by name among equals, null before the first step.
""",  # noqa: E501
    cases=lambda rng, v: _machine_case(rng, v),
)


def _machine_case(rng: Random, v: Values) -> Case:
    states, names, arrow = ["idle", "busy", "done", "held"], ["go", "stop", "hold"], v["arrow"]
    lines = []
    for _ in range(rng.randint(3, 7)):
        source = v["star"] if v["wildcard"] and rng.random() < 0.25 else rng.choice(states)
        least = rng.choice(["", "", " if 2", " if 5"])
        lines.append(f"{source} {rng.choice(names)} {arrow} {rng.choice(states)}{least}")
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "  "]))
    if rng.random() < 0.06:
        lines.append(rng.choice(["idle go busy", f"idle {arrow} busy"]))
    events: list[list[Any]] = []
    for _ in range(rng.randint(4, 9)):
        roll = rng.random()
        if roll < 0.15:
            events.append(["undo"] if v["undo"] else ["states"])
        elif roll < 0.3:
            events.append(rng.choice([["favourite"], ["states"], ["rule", f"held go {arrow} zone"], ["rule", "x"]]))
        else:
            events.append([rng.choice(names), rng.choice([0, 1, 2, 5])] if rng.random() < 0.6 else [rng.choice(names)])
    return f"{v['pkg']}.app:run", ["\n".join(lines), "idle", [*events, ["favourite"], ["states"]]]
