"""Small task directories in the exact layouts of Harbor and Terminal-Bench, written where a test wants them."""

from collections.abc import Mapping
from pathlib import Path

TOML = """schema_version = "1.4"
[task]
name = "ours/{name}"
[metadata]
difficulty = "{difficulty}"
[agent]
timeout_sec = 300.0
[verifier]
timeout_sec = 60.0
[environment]
{environment}
"""
DOCKERFILE = "FROM python:3.13-slim\nWORKDIR /app\n"
CHECK = """#!/bin/bash
if {test}; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
PYTEST = """#!/bin/bash
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh
source $HOME/.local/bin/env
if uvx --with pytest==8.4.1 --with pytest-json-ctrf==0.3.5 \\
    pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Files below a folder; scripts may be executed."""
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o755 if path.endswith(".sh") else 0o644)
    return folder


def harbor(
    root: Path,
    name: str,
    *,
    test: str = "grep -qx 42 /app/answer.txt",
    solve: str | None = "echo 42 > answer.txt\n",
    instruction: str = "",
    dockerfile: str = DOCKERFILE,
    environment: str = "",
    difficulty: str = "easy",
    toml: str = "",
    **more: str,
) -> Path:
    """One task of Harbor's; `more` are further files, `__` in a name for `/` and `_DOT_` for a dot."""
    files = {
        "task.toml": toml or TOML.format(name=name, environment=environment, difficulty=difficulty),
        "instruction.md": instruction or f"Write the answer of {name} to answer.txt.\n",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test if test.startswith("#!") else CHECK.format(test=test),
    }
    if solve is not None:
        files["solution/solve.sh"] = f"#!/bin/bash\n{solve}# {name}\n"
    extra = {path.replace("__", "/").replace("_DOT_", "."): text for path, text in more.items()}
    return write(root / name, {**files, **extra})


COMPOSE = """services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
"""
RUN_TESTS = """#!/bin/bash
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.7.13/install.sh | sh
source $HOME/.local/bin/env
if [ "$PWD" = "/" ]; then exit 1; fi
uv init
uv add pytest==8.4.1
uv run pytest $TEST_DIR/test_outputs.py -rA
"""


def terminal_bench(root: Path, name: str, *, tests: str, solve: str, more_yaml: str = "", **files: str) -> Path:
    """One task of Terminal-Bench's."""
    said = f"instruction: |-\n  Do what {name} says.\nauthor_name: A\nauthor_email: a@b.c\ndifficulty: medium\n"
    said += f"category: files\ntags: []\nparser_name: pytest\nmax_agent_timeout_sec: 300\n{more_yaml}"
    return write(
        root / name,
        {
            "task.yaml": said,
            "Dockerfile": "FROM ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624\nWORKDIR /app\n",
            "docker-compose.yaml": COMPOSE,
            "run-tests.sh": RUN_TESTS,
            "tests/test_outputs.py": tests,
            "solution.sh": f"#!/bin/bash\n{solve}",
            **files,
        },
    )


def sound_set(root: Path) -> Path:
    """Eight of Harbor's that can be done here and two of Terminal-Bench's."""
    harbor(root, "answer")
    harbor(
        root, "pytest-outputs", test=PYTEST, difficulty="medium",
        tests__test_outputs_DOT_py="from pathlib import Path\n\n\ndef test_it():\n"
        "    assert Path('/app/out/sum.txt').read_text().split() == ['6']\n",
        solve="mkdir -p out\nawk '{s += $1} END {print s}' numbers.txt > out/sum.txt\n",
        dockerfile=f"{DOCKERFILE}RUN apt-get update && apt-get install -y bash && rm -rf /var/lib/apt/lists/*\n"
        "COPY numbers.txt ./\n",
        environment__numbers_DOT_txt="1\n2\n3\n",
    )  # fmt: skip
    harbor(
        root, "fix-code", test="cd /app && python3 -c 'import calc; assert calc.add(2, 3) == 5'",
        solve="sed -i 's/a - b/a + b/' calc.py\n", dockerfile=f"{DOCKERFILE}COPY . .\n",
        environment__calc_DOT_py="def add(a, b):\n    return a - b\n",
    )  # fmt: skip
    harbor(
        root, "executable", test="test \"$(/app/hello.sh)\" = hello",
        solve="printf '#!/bin/sh\\necho hello\\n' > hello.sh\nchmod +x hello.sh\n",
    )  # fmt: skip
    harbor(
        root, "from-data", test="cmp -s /app/copy.csv /data/table.csv", solve="cp /data/table.csv copy.csv\n",
        dockerfile="FROM ubuntu:24.04\nCOPY table.csv /data/table.csv\nWORKDIR /app\nENV MODE=fast\n",
        environment__table_DOT_csv="a,b\n1,2\n",
    )  # fmt: skip
    harbor(
        root, "remove-logs", test="test ! -e /app/logs/old.log -a -f /app/logs/new.log",
        solve="rm logs/old.log\n", difficulty="hard",
        dockerfile=f"{DOCKERFILE}RUN mkdir -p logs && touch logs/old.log logs/new.log\n",
    )  # fmt: skip
    harbor(
        root, "json-reward", solve="echo '[3, 1]' > data.json\n",
        test="#!/bin/bash\ntest -f /app/data.json && good=1 || good=0\n"
        "echo \"{\\\"reward\\\": $good, \\\"speed\\\": 0.5}\" > /logs/verifier/reward.json\n"
        "echo $good > /logs/verifier/reward.txt\nexit 3\n",
    )  # fmt: skip
    harbor(
        root, "old-spelling", test="test -s /app/report.txt", solve="bash /solution/make.sh > report.txt\n",
        toml='version = "1.0"\n[metadata]\n[agent]\ntimeout_sec = 100.0\n[verifier]\ntimeout_sec = 50\n[environment]\n'
        'cpus = 1\nmemory = "2G"\nstorage = "10G"\n'
        'allow_internet = true\ndocker_image = "python:3.12-slim"\nenv = { WHO = "${NOBODY:-me}" }\n',
        solution__make_DOT_sh='echo "by $WHO"\n',
    )  # fmt: skip
    terminal_bench(
        root, "tb-hello", solve="echo 'Hello, world!' > hello.txt\n",
        tests="from pathlib import Path\n\n\ndef test_there():\n    assert Path('/app/hello.txt').exists()\n\n\n"
        "def test_says():\n    assert Path('/app/hello.txt').read_text() == 'Hello, world!\\n'\n",
    )  # fmt: skip
    terminal_bench(
        root, "tb-sorted", solve="sort words.txt > sorted.txt\n",
        tests="from pathlib import Path\n\n\ndef test_sorted():\n"
        "    assert Path('/app/sorted.txt').read_text() == 'a\\nb\\nc\\n'\n",
        Dockerfile="FROM ghcr.io/laude-institute/t-bench/python-3-13:20250620\nWORKDIR /app\nCOPY words.txt /app/\n",
        **{"words.txt": "c\na\nb\n"},
    )  # fmt: skip
    return root
