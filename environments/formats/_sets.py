"""What sets of foreign tasks share: which tasks are held out, and what a folder's task looks like to a policy."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from assay.ids import content_hash
from assay.records import Message, Split, record
from environments.base import Domain, LeftOut
from environments.tools import say_call
from environments.workbench import FINISH, RUN

T = TypeVar("T")


@record
class Kin:
    """What must not be in both splits: tasks that share a prompt, an answer or a family belong together."""

    name: str
    prompt: str
    answer: str
    family: str
    wanted: Split | None = None


class NamedTasks(Domain):
    """A domain of finitely many tasks with names; a subclass fills the two fields and makes tasks of names."""

    _names: Mapping[str, Sequence[str]]  # by split
    _left_out: Sequence[LeftOut]

    def num_tasks(self, split: Split) -> int:
        return len(self._names[split])

    def left_out(self) -> Sequence[LeftOut]:
        return self._left_out

    def name_at(self, split: Split, index: int) -> str:
        """Raises IndexError beyond `num_tasks`."""
        names = self._names[split]
        if not 0 <= index < len(names):
            raise IndexError(f"{self.id} has {len(names)} {split} tasks; there is no number {index}")
        return names[index]


def by_split(split_of: Mapping[str, Split]) -> dict[str, list[str]]:
    """The names of each split in order."""
    return {split: sorted(name for name, its in split_of.items() if its == split) for split in ("train", "heldout")}


def splits(kin: Sequence[Kin], *, heldout_share: float) -> dict[str, Split]:
    """The split of each task by name: by a hash of its group, or as one of the group wants it.

    Depends on the group only, so a task stays where it is when others are added, unless they join its group.
    """
    groups: dict[str, list[Kin]] = {}
    for group in _groups(kin):
        groups[min(each.name for each in group)] = group
    found: dict[str, Split] = {}
    for first, group in groups.items():
        drawn = int(content_hash(["split", first])[:8], 16) / (1 << 32)
        wanted = [each.wanted for each in sorted(group, key=lambda each: each.name) if each.wanted]
        split: Split = wanted[0] if wanted else ("heldout" if drawn < heldout_share else "train")
        found.update({each.name: split for each in group})
    return found


def _groups(kin: Sequence[Kin]) -> list[list[Kin]]:
    """Connected by equal prompts, answers or families."""
    owner: dict[tuple[str, str], int] = {}
    groups: list[list[Kin]] = []
    for each in kin:
        keys = [("prompt", each.prompt), ("answer", each.answer), ("family", each.family)]
        joined = sorted({owner[key] for key in keys if key in owner})
        home = joined[0] if joined else len(groups)
        if not joined:
            groups.append([])
        groups[home].append(each)
        for other in joined[1:]:
            groups[home] += groups[other]
            groups[other] = []
        moved = set(joined)
        owner.update({key: home for key, at in owner.items() if at in moved})
        owner.update(dict.fromkeys(keys, home))
    return [group for group in groups if group]


def prompt(instruction: str, work_dir: str) -> tuple[Message, ...]:
    """What a policy is told of a task in a folder."""
    system = (
        f"You work in a Linux sandbox without network. Your folder is {work_dir}; only it and /tmp can be written. Use "
        "the tools, look at what is there, do what is asked, and call finish when it is done."
    )
    return Message(role="system", content=system), Message(role="user", content=instruction.strip())


def did(command: str) -> str:
    """A completion that runs one command and finishes."""
    return f"{say_call(RUN.name, command=command)}\n{say_call(FINISH.name)}"


def nothing() -> str:
    """A completion that only finishes."""
    return say_call(FINISH.name)


def missing(wanted: Mapping[str, object], *names: str) -> str:
    """The names that are not there or empty, joined."""
    return ", ".join(name for name in names if not wanted.get(name))
