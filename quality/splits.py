"""Held-out means held out: no task of it shares content, template or answer with a training task of its domain."""

from collections.abc import Callable, Iterable

from assay.errors import EnvironmentAuthorError
from assay.records import Message, TaskSpec

SHOWN = 5


def _told(message: Message) -> str:
    return "\n".join([f"{message.role}: {message.content}", *(image.digest for image in message.images)])


# Every field by which a training task may give a held-out one away.
SHARED: tuple[tuple[str, Callable[[TaskSpec], str]], ...] = (
    ("content", lambda task: task.content_hash),
    ("prompt", lambda task: "\n".join(_told(message) for message in task.prompt)),
    ("template", lambda task: task.template),
    ("answer", lambda task: task.answer_digest),
)


def leaks(train: Iterable[TaskSpec], heldout: Iterable[TaskSpec]) -> list[str]:
    """One sentence per held-out task and shared field, empty when the splits are disjoint."""
    train, heldout = list(train), list(heldout)
    found: list[str] = []
    for name, value in SHARED:
        seen = {(task.domain, value(task)): task.id for task in train}
        found += [
            f"{task.id} shares its {name} with {seen[task.domain, value(task)]}"
            for task in heldout
            if (task.domain, value(task)) in seen
        ]
    return found


def check_splits(tasks: Iterable[TaskSpec]) -> None:
    """Raise EnvironmentAuthorError, naming pairs, unless the held-out and training tasks among `tasks` are disjoint."""
    tasks = list(tasks)
    found = leaks([t for t in tasks if t.split == "train"], [t for t in tasks if t.split == "heldout"])
    if found:
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise EnvironmentAuthorError(
            f"Held-out tasks leak into training ({len(found)} overlaps): {'; '.join(found[:SHOWN])}{more}. "
            "An evaluation on them would measure memory; change the domain's make_task so that splits share nothing."
        )
