"""Parts of a task directory: TOML and models, variables, and what Assay's own folder beside the task adds."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from environments.formats._faults import Unusable, invalid, unsupported
from environments.formats._folder import read_folder, read_text
from environments.formats._harbor_models import Assay

M = TypeVar("M", bound=BaseModel)
_HOST = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Raises Unusable."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Unusable(f"is not valid TOML: {str(error)[:200]}", key=name, value=text[:40]) from error


def checked(model: type[M], values: Any) -> M:
    """The values as the model. Raises Unusable."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise invalid(error) from error


def variables(key: str, values: Mapping[str, str]) -> dict[str, str]:
    """`${NAME:-default}` becomes the default: nothing of this machine's environment is given away."""
    made = {}
    for name, text in values.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\0" in text:
            raise Unusable("not the name of an environment variable, or a NUL in it", key=key, value=name)
        for match in _HOST.finditer(text):
            if match[2] is None:
                raise unsupported("variables of this machine are not passed on", f"{key}.{name}", text)
        made[name] = _HOST.sub(lambda match: match[2], text)
    return made


def ours_beside(folder: Path, said: Assay) -> dict[str, Any]:
    """What Assay's own folder beside the task adds."""
    scripts = {
        kind: {
            path: read_text(folder / "assay" / kind, path)
            for path in read_folder(folder / "assay" / kind)
            if path.endswith(".sh")
        }
        for kind in ("wrong", "equivalent")
    }
    cases = _cases(read_text(folder, "assay/cases.jsonl")) if said.cases else ()
    return {**scripts, "assay": said, "cases": cases}


def _cases(text: str) -> tuple[dict[str, Any], ...]:
    cases = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            case = json.loads(line)
            cases.append({"args": list(case["args"]), "expected": case["expected"]})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            rule = 'each line is {"args": [...], "expected": ...}'
            raise Unusable(rule, key=f"assay/cases.jsonl line {number}", value=line) from error
    if not cases:
        raise Unusable("at least one case is needed", key="assay/cases.jsonl", value="nothing")
    return tuple(cases)
