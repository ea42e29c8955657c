"""A session: a shell that remembers, whose results no command can forge."""

import asyncio
import secrets
import time

import pytest

from assay.errors import SandboxError, SandboxUnsupported
from environments.sandboxes.base import Backend, Limits, Sandbox, SandboxSpec
from tests.environments.sandboxes.probing import GUARD, processes_with, wait_until


@pytest.fixture(autouse=True)
def _capable(sandbox: Sandbox) -> None:
    if "session" not in sandbox.capabilities:
        pytest.skip("this backend has no sessions")


async def said(sandbox: Sandbox, command: str, **options: object) -> str:
    """What a command of the session `main` prints; it must end well."""
    result = await sandbox.exec(command, session="main", **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout


async def test_directory_variables_functions_and_options_stay(sandbox: Sandbox) -> None:
    await said(sandbox, "mkdir -p a/b; cd a/b; export X='1 2'; y=$'q\\n\"'; f() { echo \"f $1\"; }; shopt -s extglob")
    assert (
        await said(sandbox, 'pwd; echo "$X|$y"; f 3; shopt -q extglob && echo on')
        == '/workspace/a/b\n1 2|q\n"\nf 3\non\n'
    )
    assert await said(sandbox, "sh -c 'echo $X$y'") == "1 2\n"


async def test_arrays_and_changed_variables_stay_as_they_became(sandbox: Sandbox) -> None:
    await said(sandbox, "list=(a 'b c'); declare -A table=([k]=v); n=1")
    await said(sandbox, "list+=(d); unset n; table[k]=w")
    assert await said(sandbox, 'echo "${#list[@]} ${list[1]} ${table[k]} ${n-unset}"') == "3 b c w unset\n"


async def test_sessions_and_plain_commands_do_not_share_variables_but_files(sandbox: Sandbox) -> None:
    await said(sandbox, "x=1; cd /tmp; echo hi > /workspace/f")
    other = await sandbox.exec("echo ${x-none} $PWD; cat f", session="other")
    plain = await sandbox.exec("echo ${x-none} $PWD; cat f")
    assert other.stdout == plain.stdout == "none /workspace\nhi\n"


async def test_the_exit_status_is_the_kernels(sandbox: Sandbox) -> None:
    for command, code, signal in (
        ("exit 3", 3, None),
        ("false", 1, None),
        ("kill -9 $$", None, 9),
        ("(exit 7)", 7, None),
    ):
        result = await sandbox.exec(command, session="main")
        assert (result.exit_code, result.signal) == (code, signal), command
    assert await said(sandbox, "echo still here") == "still here\n"


async def test_what_a_command_prints_or_leaves_cannot_change_its_result(sandbox: Sandbox) -> None:
    """Whatever a command finds open in itself and in PID 1, writing to it forges nothing."""
    forging = r"""
for fd in 3 4 5 6 7 8 9 10 11 12; do printf '\0\0\0\2{}{"exit_code": 0}\n' >&$fd; done 2>/dev/null
for fd in /proc/1/fd/*; do printf '\0\0\0\2{}' > $fd; done 2>/dev/null
echo '{"exit_code": 0, "signal": null, "num_stdout": 0, "size": 0}'
exit 5
"""
    result = await sandbox.exec(forging, session="main")
    assert (result.exit_code, result.timed_out) == (5, False)
    assert await said(sandbox, "echo fine") == "fine\n"


async def test_pid_1_cannot_be_looked_into_nor_ended(sandbox: Sandbox) -> None:
    code = (
        GUARD
        + """
import ctypes
answer = []
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/maps"):
    try:
        open(path, "rb").read(1); answer.append(path)
    except OSError: pass
for number in range(1, 65): os.kill(1, number)
libc = ctypes.CDLL(None, use_errno=True)
fd = os.pidfd_open(1)
if libc.syscall(438, fd, 3, 0) >= 0: answer.append("pidfd_getfd")
print(json.dumps(answer))
"""
    )
    await sandbox.write("look.py", code.encode())
    assert await said(sandbox, "python3 -I -S look.py") == "[]\n"
    assert await said(sandbox, "echo alive") == "alive\n"


async def test_background_jobs_go_on_and_their_output_stalls_nobody(sandbox: Sandbox) -> None:
    await said(sandbox, "(while :; do date; done) & echo $! > pid; (sleep 0.3; echo done > late) &")
    assert await said(sandbox, "kill -0 $(cat pid) && echo runs") == "runs\n"
    await asyncio.sleep(0.5)
    assert (
        await said(sandbox, "cat late; kill $(cat pid); sleep 0.1; kill -0 $(cat pid) 2>&1 | grep -c 'No such'")
        == "done\n1\n"
    )


async def test_a_time_out_ends_what_the_command_started_and_spares_earlier_jobs(sandbox: Sandbox) -> None:
    early, late = (f"8633.{secrets.randbelow(10**12):012}" for _ in range(2))
    await said(sandbox, f"x=kept; sleep {early} &")
    result = await sandbox.exec(
        f"x=lost; setsid sleep {late} & (sleep {late} &) ; sleep {late}", session="main", timeout_s=0.5
    )
    assert (result.timed_out, result.exit_code, result.signal) == (True, None, None)
    assert result.wall_s < 5
    assert processes_with(late) == []
    assert len(processes_with(f"sleep\0{early}")) == 1
    assert await said(sandbox, "echo $x") == "kept\n"


async def test_output_is_capped_and_a_flood_is_ended(sandbox: Sandbox) -> None:
    result = await sandbox.exec("head -c 5000 /dev/zero | tr '\\0' x; exit 4", session="main", max_output=1000)
    assert (result.exit_code, result.stdout, result.truncated) == (4, "x" * 1000, True)
    flood = await sandbox.exec("yes", session="main", max_output=1000, timeout_s=60)
    assert (flood.signal, flood.truncated, flood.timed_out) == (9, True, False)
    assert flood.wall_s < 30


async def test_standard_input_arrives_whole_and_then_ends(sandbox: Sandbox) -> None:
    data = secrets.token_hex(300_000)
    result = await sandbox.exec("cat", session="main", stdin=data.encode(), max_output=1 << 20)
    assert result.stdout == data
    assert (await sandbox.exec("cat", session="main")).exit_code == 0


async def test_a_long_command_and_odd_characters_arrive_unchanged(sandbox: Sandbox) -> None:
    text = "ä'\"\\$`\n" * 20_000
    await sandbox.exec(f"cat > f <<'END'\n{text}END\n", session="main")
    assert (await sandbox.read("f")).decode() == text


async def test_words_are_run_as_they_are(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["printf", "%s|", "a b", "$HOME", "*"], session="main")).stdout == "a b|$HOME|*|"


async def test_directory_and_variables_given_with_a_command_stay_in_the_session(sandbox: Sandbox) -> None:
    await sandbox.exec("true", session="main", cwd="/tmp", env={"A": "it's"})
    assert await said(sandbox, "pwd; echo $A") == "/tmp\nit's\n"
    missing = await sandbox.exec("true", session="main", cwd="no/such")
    assert missing.exit_code == 126
    assert "no/such" in missing.stderr


async def test_a_syntax_error_and_a_missing_command_are_the_callers_results(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("if", session="main")).exit_code != 0
    missing = await sandbox.exec("no-such-command", session="main")
    assert missing.exit_code == 127
    assert "no-such-command" in missing.stderr


async def test_a_deleted_directory_leads_back_to_the_work_dir(sandbox: Sandbox) -> None:
    await said(sandbox, "mkdir gone; cd gone; rmdir ../gone")
    assert await said(sandbox, "pwd") == "/workspace\n"


async def test_commands_of_one_session_run_in_order(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.exec(f"echo {n} >> order", session="main") for n in range(5)))
    assert all(result.exit_code == 0 for result in results)
    assert await said(sandbox, "cat order") == "0\n1\n2\n3\n4\n"


async def test_an_agent_that_fills_tmp_and_the_work_dir_gets_on(sandbox: Sandbox) -> None:
    fill = "for d in /tmp /workspace; do for i in $(seq 9); do cat /dev/zero > $d/fill$i; done; done"
    full = await sandbox.exec(fill, session="main", timeout_s=60)
    assert "No space left" in full.stderr
    assert await said(sandbox, "rm -f /tmp/fill* /workspace/fill*; echo ok > f; cat f") == "ok\n"


MANY = """
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
except BlockingIOError:
    print("no more")
"""


async def test_too_many_processes_are_the_sessions_own_trouble(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(limits=Limits(max_processes=16), files={"many.py": GUARD + MANY}))
    assert await said(sandbox, "python3 -I -S many.py") == "no more\n"
    result = await sandbox.exec("echo hello", session="main")
    assert (result.exit_code, result.stdout) in ((0, "hello\n"), (126, ""))
    assert result.exit_code == 0 or "No shell could be started" in result.stderr
    await sandbox.restore()
    assert await said(sandbox, "echo hello") == "hello\n"
    await sandbox.destroy()


async def test_a_memory_hog_is_killed_and_the_result_says_so(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec(limits=Limits(memory_bytes=128 << 20)))
    hog = "import time; x = bytearray(b'x') * (60 << 20); time.sleep(2)"
    result = await sandbox.exec(
        f"for i in 1 2 3 4 5 6; do python3 -c {hog!r} & done; wait", session="main", timeout_s=30
    )
    if "memory_bytes" in result.limits_enforced:
        assert result.exit_code is not None or result.oom_killed
    assert (await sandbox.exec("echo again", session="main")).stdout == "again\n"
    await sandbox.destroy()


async def test_a_cancelled_command_ends_with_its_session(sandbox: Sandbox) -> None:
    marker = f"8632.{secrets.randbelow(10**12):012}"
    running = asyncio.create_task(sandbox.exec(f"sleep {marker}", session="main", timeout_s=60))
    await asyncio.to_thread(wait_until, lambda: processes_with(f"sleep\0{marker}"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_until, lambda: not processes_with(marker))
    assert await said(sandbox, "echo new") == "new\n"


async def test_destroying_ends_sessions_and_their_jobs(backend: Backend) -> None:
    sandbox = await backend.create(SandboxSpec())
    marker = f"8631.{secrets.randbelow(10**12):012}"
    await sandbox.exec(f"setsid nohup sleep {marker} &", session="main")
    assert processes_with(marker)
    await sandbox.destroy()
    assert processes_with(marker) == []
    with pytest.raises(SandboxError, match="destroyed"):
        await sandbox.exec("true", session="main")


async def test_usage_is_reported(sandbox: Sandbox) -> None:
    began = time.monotonic()
    result = await sandbox.exec("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done", session="main")
    assert result.cpu_s is not None
    assert 0.02 < result.cpu_s < 30
    assert result.wall_s <= time.monotonic() - began
    assert result.peak_memory_bytes is not None
    assert result.peak_memory_bytes > 1 << 20


def test_a_backend_without_sessions_says_so(backend: Backend) -> None:
    from environments.sandboxes.base import require

    with pytest.raises(SandboxUnsupported, match="session"):
        require("plain", frozenset(), {"session"})


async def test_the_python_of_the_session_reads_nothing_the_agent_wrote(sandbox: Sandbox) -> None:
    """PID 1 is isolated from modules, site files and variables that the agent leaves around."""
    for name in ("json.py", "sitecustomize.py", "usercustomize.py", "select.py"):
        await sandbox.write(name, b"raise SystemExit('taken over')")
    result = await sandbox.exec(
        "echo fine", session="fresh", env={"PYTHONPATH": "/workspace", "PYTHONSTARTUP": "json.py"}
    )
    assert result.stdout == "fine\n"
