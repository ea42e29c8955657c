"""TRL's side of `grpo_step`: its environment, and a process that takes one step whenever it is told to."""

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay.errors import TrainingError
from assay.settings import settings
from benchmarks._venv import ensure_venv
from benchmarks.report import Round
from benchmarks.workload import LEARNING_RATE, TEMPERATURE, Workload

WORKER = Path(__file__).resolve().parent / "_trl_worker.py"
MARK = "@@ "


def ensure_trl() -> Path:
    """The Python that has TRL; installs it on first use (1.5 GB, a few minutes)."""
    return ensure_venv("trl", "requirements-trl.txt", "torch==2.13.0")


class Trl:
    """A GRPOTrainer in a process of its own that waits before every step."""

    def __init__(self, python: Path, model: Path, folder: Path, workload: Workload, steps: int, dtype: str) -> None:
        self.workload = workload
        self.log = folder / "trl.log"
        order = {
            "model": str(model),
            "folder": str(folder / "trl"),
            "prompts": [text for step in range(steps) for text in workload.prompts(step)],
            "steps": steps,
            "dtype": dtype,
            "threads": settings().num_threads,
            "temperature": TEMPERATURE,
            "learning_rate": LEARNING_RATE,
            **asdict(workload),
        }
        (folder / "order.json").write_text(json.dumps(order))
        # Passive: on a busy machine threads that spin for each other would make TRL slower than it is.
        environment = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ
        environment |= {"OMP_NUM_THREADS": str(settings().num_threads), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [python, WORKER, folder / "order.json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log.open("wb"),
            text=True,
            env=environment,
        )
        self._read()  # it is ready

    def step(self) -> Round:
        """One step; TrainingError when TRL fails or does other work than it was given."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        result = self._read()
        if result["num_tokens"] != self.workload.num_tokens:
            raise TrainingError(f"TRL sampled {result['num_tokens']} tokens instead of {self.workload.num_tokens}.")
        generate_s = result["generate_s"]
        return Round({"generate": generate_s, "train": result["total_s"] - generate_s}, result["num_tokens"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
        raise TrainingError(f"TRL ended unexpectedly:\n{self.log.read_text(errors='replace')[-2000:]}")
