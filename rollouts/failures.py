"""From an exception to the cause that is recorded: who could act on it, and what to read."""

import errno
import traceback

from assay.errors import AssayError, EngineError, SandboxError, VerifierError
from assay.records import Cause, Failure

# The machine ran out of something, whichever line of code noticed.
_EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO}


class DeadlinePassed(Exception):
    """A rollout's time limit passed before its episode ended."""


_CAUSES: tuple[tuple[type[BaseException], Cause], ...] = (
    (SandboxError, Cause.SANDBOX),
    (EngineError, Cause.ENGINE),
    (VerifierError, Cause.VERIFIER),
    (DeadlinePassed, Cause.DEADLINE),
    (MemoryError, Cause.INFRA),
    (ConnectionError, Cause.INFRA),
)


def cause_of(error: BaseException, *, unknown: Cause) -> Cause:
    """The cause an exception stands for; `unknown` when its class tells nothing."""
    for kind, cause in _CAUSES:
        if isinstance(error, kind):
            return cause
    exhausted = isinstance(error, OSError) and error.errno in _EXHAUSTED
    return Cause.INFRA if exhausted else unknown


def failure_of(error: BaseException, *, unknown: Cause) -> Failure:
    """Cause and detail; errors raised on purpose say it in their message, others bring the end of their traceback."""
    told = str(error) if isinstance(error, (AssayError, DeadlinePassed)) else ""
    return Failure(cause=cause_of(error, unknown=unknown), detail=told or traceback_tail(error))


def traceback_tail(error: BaseException, *, num_lines: int = 8) -> str:
    """The last lines of the traceback, the message included."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return "\n".join(text.splitlines()[-num_lines:])
