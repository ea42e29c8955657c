"""An agent at work in a sandbox: a shell and files behind tools, one completion a turn.

    run      a command in a shell that keeps its directory, variables and background jobs
    read     a file, or some of its lines              write    a whole file
    edit     one place of a file                       finish   end the episode, with an answer where one is asked for

What is scored are the files it leaves (those that match the domain's patterns) and its answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import SandboxError
from assay.ids import canonical_json
from assay.records import TaskSpec, Tool
from environments import artifacts
from environments.artifacts import Artifacts
from environments.base import Outcome, Reply
from environments.sandboxes.base import Backend, ExecResult, Sandbox, SandboxSpec
from environments.tools import BadCall, Call, read_calls

COMMAND_S = 30.0
SHOWN_CHARS = 4_000
_MAX_READ = 1 << 20
_WORK_DIR = SandboxSpec().work_dir
_TEXT = {"type": "string"}
_LINE = {"type": "integer", "minimum": 1}


def _tool(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool(name=name, description=description, parameters=schema)


RUN = _tool("run", "Run a command in bash and show its output and exit code.", ["command"], command=_TEXT)
READ = _tool("read", "Show a text file with line numbers.", ["path"], path=_TEXT, first=_LINE, last=_LINE)
WRITE = _tool("write", "Create or replace a text file.", ["path", "text"], path=_TEXT, text=_TEXT)
EDIT = _tool(
    "edit", "Replace `old`, which must occur exactly once, by `new`.", ["path", "old", "new"],
    path=_TEXT, old={"type": "string", "minLength": 1}, new=_TEXT,
)  # fmt: skip
FINISH = _tool("finish", "End the work; give the answer if one was asked for.", [], answer=_TEXT)
TOOLS = (RUN, READ, WRITE, EDIT, FINISH)


class Workbench:
    """An episode in a sandbox of its own; `collected` are patterns (`fnmatch`) of paths that are submitted."""

    def __init__(self, task: TaskSpec, sandbox: Sandbox, collected: Sequence[str], work_dir: str = _WORK_DIR) -> None:
        self.task = task
        self.sandbox = sandbox
        self._collected = tuple(collected)
        self._work_dir = work_dir
        self._answer = ""
        self._turns = self._invalid = 0
        self._failed = False

    @classmethod
    async def open(cls, task: TaskSpec, sandboxes: Backend, spec: SandboxSpec, collected: Sequence[str]) -> "Workbench":
        """Raises SandboxError when the place cannot be made."""
        return cls(task, await sandboxes.create(spec), collected, spec.work_dir)

    async def reply(self, completion: str) -> Reply:
        self._turns += 1
        last = self._turns >= self.task.max_turns
        try:
            calls = read_calls(completion, self.task.tools)
        except BadCall as fault:
            self._invalid, self._failed = self._invalid + 1, True
            return Reply(action="", observation=str(fault), done=last, valid_action=False)
        said: list[str] = []
        for call in calls:
            if call.name == FINISH.name:
                self._answer = call.arguments.get("answer", "")
                return Reply(action=_told(calls), observation="\n".join(said), done=True)
            said.append(await self._do(call))
        return Reply(action=_told(calls), observation="\n".join(said), done=last)

    async def outcome(self) -> Outcome:
        left = await artifacts.collect(self.sandbox, self._collected)
        submission = artifacts.write(Artifacts(files=left.files, answer=self._answer, refused=left.refused))
        return Outcome(submission=submission, metrics=self._metrics())

    async def state_hash(self) -> str:
        return await self.sandbox.state_hash()

    async def close(self) -> None:
        await self.sandbox.destroy()

    async def _do(self, call: Call) -> str:
        """What one call shows. Raises SandboxError when the place failed, not when the call did."""
        given = call.arguments
        if call.name == RUN.name:
            result = await self._run(given["command"])
            self._failed = result.exit_code != 0
            return shown(result)
        try:
            said = await self._with_file(call.name, given)
        except (SandboxError, UnicodeError) as error:
            # The file is missing or not a text: the agent's mistake. Whether the place still works decides.
            await self._check_alive()
            self._failed = True
            return f"error: {error}"
        self._failed = said.startswith("error:")
        return said

    async def _run(self, command: str) -> ExecResult:
        keeps = "session" in self.sandbox.capabilities
        options: dict[str, Any] = {"session": "agent"} if keeps else {}
        return await self.sandbox.exec(command, timeout_s=COMMAND_S, **options)

    async def _with_file(self, name: str, given: Mapping[str, Any]) -> str:
        path = self._relative(given["path"])
        if name == WRITE.name:
            await self._write(path, given["text"])
            return f"wrote {path}"
        text = (await self.sandbox.read(path, max_bytes=_MAX_READ)).decode()
        if name == READ.name:
            return _numbered(text, given.get("first", 1), given.get("last"))
        if (count := _occurrences(text, given["old"])) != 1:
            return f"error: `old` occurs {count} times in {path}; it must occur exactly once."
        await self._write(path, text.replace(given["old"], given["new"]))
        return f"edited {path}"

    def _relative(self, path: str) -> str:
        """Paths as the shell shows them, made such as a sandbox takes them; it refuses what leads outside."""
        inside = path.removeprefix(f"{self._work_dir}/") if path.startswith("/") else path
        return inside.removeprefix("./")

    async def _write(self, path: str, text: str) -> None:
        """A file that is replaced stays as executable as it was."""
        data = text.encode()
        found = await self.sandbox.exec(["stat", "-c", "%F|%a", "--", path])
        kind, _, mode = found.stdout.strip().rpartition("|")
        regular = found.exit_code == 0 and kind.startswith("regular")
        await self.sandbox.write(path, data, mode=int(mode, 8) & 0o777 if regular else 0o644)

    async def _check_alive(self) -> None:
        await self.sandbox.exec(["true"])

    def _metrics(self) -> dict[str, float]:
        return progress(
            num_turns=self._turns,
            max_turns=self.task.max_turns,
            num_invalid=self._invalid,
            failing=self._failed,
        )


def progress(*, num_turns: int, max_turns: int, num_invalid: int, failing: bool) -> dict[str, float]:
    """Figures of an episode; `steps`, `valid_actions` and `recovery` (0..1) feed the rubric.

    `steps` falls from 1 for a single turn to 0.5 for all that are allowed; `recovery` is 0 when the last action failed.
    """
    turns = max(1, num_turns)
    return {
        "num_turns": float(num_turns),
        "num_invalid_actions": float(num_invalid),
        "steps": 1.0 - 0.5 * (turns - 1) / max(1, max_turns - 1),
        "valid_actions": 1.0 - num_invalid / turns,
        "recovery": 0.0 if failing else 1.0,
    }


def shown(result: ExecResult) -> str:
    """Output and how the command ended, as the agent reads it."""
    parts = [clipped(text.rstrip("\n")) for text in (result.stdout, result.stderr) if text.strip()]
    if result.timed_out:
        ended = f"timed out after {result.wall_s:.0f} s; everything it started was ended"
    elif result.signal is not None:
        ended = f"ended by signal {result.signal}{' (out of memory)' if result.oom_killed else ''}"
    else:
        ended = f"exit code {result.exit_code}"
    return "\n".join([*parts, f"[{ended}]"])


def clipped(text: str, most: int = SHOWN_CHARS) -> str:
    """The start and the end of a long text."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _numbered(text: str, first: int, last: int | None) -> str:
    lines = text.splitlines()[first - 1 : last]
    return clipped("\n".join(f"{first + i:>5}  {line}" for i, line in enumerate(lines)) or "[no lines]")


def _occurrences(text: str, part: str) -> int:
    """How often a part occurs, overlaps counted: `aa` is twice in `aaa`. Counting stops at 100."""
    count, at = 0, text.find(part)
    while at >= 0 and count < 100:
        count, at = count + 1, text.find(part, at + 1)
    return count


def _told(calls: Sequence[Call]) -> str:
    return canonical_json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
