"""What task.toml (schema 1.4 and older spellings) and task.yaml say, checked; unknown keys are left alone."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Seconds = Annotated[float, Field(gt=0, le=7 * 86_400, allow_inf_nan=False)]
Size = Annotated[int, Field(gt=0, le=1 << 30)]
NetworkMode = Literal["public", "no-network", "allowlist"]
Variables = dict[str, str]
_UNITS = {"": 1 / (1 << 20), "K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class About(_Table):
    """[task]"""

    name: str = Field("", pattern=r"^([\w.-]+/)?[\w.+-]+$|^$", max_length=200)
    version: str | int | float = ""
    description: str = ""
    keywords: tuple[str, ...] = ()


class Agent(_Table):
    """[agent]"""

    timeout_sec: Seconds | None = None
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()


class Environment(_Table):
    """[environment]; `memory`, `storage` and `allow_internet` are older spellings."""

    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: float | None = Field(None, gt=0, le=1024, allow_inf_nan=False)
    memory_mb: Size | None = None
    storage_mb: Size | None = None
    gpus: int = Field(0, ge=0)
    tpu: Any = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    env: Variables = Field(default_factory=dict)
    skills_dir: str | None = None
    workdir: str | None = Field(None, pattern=r"^/")
    healthcheck: dict[str, Any] | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _modern(cls, values: Any) -> Any:
        """Older spellings as today's."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in values and new not in values:
                values[new] = _megabytes(old, values.pop(old))
        if isinstance(allowed := values.get("allow_internet"), bool):
            values.setdefault("network_mode", "public" if allowed else "no-network")
        elif "allow_internet" in values:
            raise ValueError("allow_internet must be true or false")
        return values


class Verifier(_Table):
    """[verifier]"""

    timeout_sec: Seconds = 600.0
    env: Variables = Field(default_factory=dict)
    environment_mode: Literal["shared", "separate"] = "shared"
    environment: dict[str, Any] | None = None
    collect: tuple[dict[str, Any], ...] = ()
    network_mode: NetworkMode | None = None


class Reference(_Table):
    """[solution]"""

    env: Variables = Field(default_factory=dict)


class Cases(BaseModel):
    """[assay.cases]: inputs and outputs in assay/cases.jsonl, which are judged out of process instead of tests."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    module: str = Field(pattern=r"^\w+(\.\w+)*$")
    entry: str = Field(pattern=r"^\w+$")


class Assay(BaseModel):
    """[assay], our own table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    level: int | None = Field(None, ge=1, le=100)
    split: Literal["train", "heldout"] | None = None
    value: str = Field("", max_length=300)
    artifacts: tuple[str, ...] = Field(("*",), min_length=1)
    cases: Cases | None = None


class Metadata(_Table):
    """[metadata]: free, of which only this is used."""

    difficulty: Any = ""


class TaskToml(_Table):
    """task.toml"""

    schema_version: str = Field("1.0", pattern=r"^1(\.\d{1,3})*$")
    source: Any = None
    task: About = About()
    metadata: Metadata = Metadata()
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    environment: Environment = Environment()
    solution: Reference = Reference()
    steps: tuple[dict[str, Any], ...] = ()
    assay: Assay = Assay()

    @model_validator(mode="before")
    @classmethod
    def _modern(cls, values: Any) -> Any:
        if isinstance(values, dict) and "version" in values and "schema_version" not in values:
            return {**values, "schema_version": values["version"]}
        return values


class TaskYaml(_Table):
    """task.yaml of Terminal-Bench"""

    instruction: str = Field(min_length=1)
    difficulty: Any = "unknown"
    category: Any = ""
    parser_name: str = "pytest"
    max_agent_timeout_sec: Seconds = 360.0
    max_test_timeout_sec: Seconds = 60.0
    run_tests_in_same_shell: bool = False

    @field_validator("instruction")
    @classmethod
    def _said(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the instruction is blank")
        return value


def _megabytes(name: str, value: Any) -> int:
    """`4G` or `512M` as MiB."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{name} must be a size such as '4G' or '512M'")
    return max(1, round(float(match[1]) * _UNITS[match[2].upper()]))
