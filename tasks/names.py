"""Names of flow runs in the UI: what, which config, domains, policy version and iteration."""

from typing import Any

from prefect.runtime import flow_run


def run_name() -> str:
    """`post_train embedded seed 0`."""
    config = _config()
    return f"post_train {config['name']} seed {config.get('seed', 0)}"


def stage_name() -> str:
    """`collect_rollouts embedded i3 p_1a2b record_extraction+code_repair`."""
    config = _config()
    run = config["run"]
    iteration = config.get("iteration", -1)
    parts = [
        str(flow_run.flow_name),
        run["name"],
        f"i{iteration}" if iteration >= 0 else "next",
        str(config.get("policy") or "newest")[:10],
        "+".join(run["domains"]),
    ]
    return " ".join(parts)


def _config() -> dict[str, Any]:
    config = flow_run.parameters["config"]
    return dict(config) if isinstance(config, dict) else dict(config.model_dump())
