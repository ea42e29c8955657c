"""Which failures of a Prefect task are worth a retry: only those our errors call transient."""

from typing import Any

from assay.errors import is_transient


def may_help(task: Any, task_run: Any, state: Any) -> bool:
    """Prefect's `retry_condition_fn`: true when the exception that failed the task is transient."""
    return isinstance(state.data, BaseException) and is_transient(state.data)


RETRY: dict[str, Any] = {"retries": 2, "retry_delay_seconds": [2, 10], "retry_condition_fn": may_help}
