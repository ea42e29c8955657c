"""Commands answer faithfully: output, exit codes, signals, input, variables."""

import json
import secrets

import pytest

from assay.errors import SandboxError
from environments.sandboxes.base import Backend, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import MIB, Attack, needs


async def test_a_command_answers_with_its_output_and_exit_code(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.exit_code, result.signal, result.stdout, result.stderr) == (3, None, "out\n", "err\n")
    assert not result.truncated
    assert not result.timed_out


async def test_standard_input_arrives_whole_and_then_ends(sandbox: Sandbox) -> None:
    data = secrets.token_hex(300_000)
    result = await sandbox.exec(["cat"], stdin=data.encode(), max_output=MIB)
    assert result.stdout == data


async def test_without_input_a_reader_sees_the_end_at_once(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["cat"])).exit_code == 0


async def test_a_command_ended_by_a_signal_says_which(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["sh", "-c", "kill -SEGV $$"])
    assert (result.exit_code, result.signal) == (None, 11)


async def test_bytes_that_are_not_utf8_are_replaced_not_fatal(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["printf", r"a\377b"])
    assert result.stdout == "a\ufffdb"


async def test_an_unknown_command_is_the_callers_result_not_a_failure(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["no-such-command"])
    assert result.exit_code == 127
    assert "no-such-command" in result.stderr


@pytest.mark.parametrize("argv", [["echo", "a\0b"], ["echo", "x" * 300_000], ["/usr"]], ids=["nul", "long", "dir"])
async def test_a_command_that_cannot_be_executed_answers_126(sandbox: Sandbox, argv: list[str]) -> None:
    assert (await sandbox.exec(argv)).exit_code == 126


async def test_an_empty_command_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="at least one word"):
        await sandbox.exec([])


async def test_environment_holds_what_was_given_and_nothing_of_ours(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_S3_SECRET_KEY", "hunter2")
    sandbox = await backend.create(SandboxSpec(env={"A": "1", "B": "2"}))
    code = "import glob\nanswer = [dict(os.environ)]"
    code += "\nfor path in glob.glob('/proc/[0-9]*/environ'):"
    code += "\n    try: answer.append(open(path, errors='replace').read())\n    except OSError: pass"
    program = f"{code}\nimport json; print(json.dumps(answer))"
    result = await sandbox.exec(["python3", "-I", "-S", "-c", f"import os\n{program}"], env={"B": "3"})
    environment, *others = json.loads(result.stdout)
    assert (environment["A"], environment["B"]) == ("1", "3")
    assert "hunter2" not in str(environment)
    assert not any("hunter2" in text for text in others)
    await sandbox.destroy()


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
async def test_a_variable_name_that_cannot_be_is_refused(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(SandboxError, match="Environment variables"):
        await sandbox.exec(["true"], env={name: "1"})


@needs("bare_python")
async def test_python_inside_has_its_standard_library_and_nothing_else(attack: Attack) -> None:
    code = """
import sys, importlib.util, sqlite3, ssl, ctypes, multiprocessing
sys.path.append(f"{sys.prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
answer = [list(sys.version_info[:2]), importlib.util.find_spec("pydantic") is None]
"""
    version, bare = await attack(code)
    assert version >= [3, 8]
    assert bare


@needs("own_root")
async def test_multiprocessing_locks_work_inside(attack: Attack) -> None:
    assert await attack("import multiprocessing; multiprocessing.Lock(); answer = 'made'") == "made"
