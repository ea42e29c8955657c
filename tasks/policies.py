"""Policy versions: the base model as a version, and which version a run stands at."""

import hashlib
import shutil
from pathlib import Path

from assay.errors import ConfigurationError
from assay.ids import content_hash, short_id
from assay.records import PolicyVersion
from assay.settings import settings
from tasks.run import RunRef, now
from tasks.workshop import Workshop


def base_policy(shop: Workshop, run: RunRef) -> PolicyVersion:
    """The untrained model as version v0, recorded in the ledger. Equal weights give one id, whatever their path."""
    uri = run.config.model or settings().model_uri
    policy_id = short_id("p", ["base", _weights_digest(uri)])
    known = shop.ledger.find(policy_id)
    if known is not None and known.uri == uri:
        return known
    policy = PolicyVersion(
        id=policy_id,
        name="v0",
        kind="base",
        parent=None,
        uri=uri,
        batch_ids=(),
        run_id=run.run_id,
        num_updates=0,
        metrics={},
        created_at=now(),
    )
    if known is None:
        shop.ledger.record(policy)
    return policy


def newest_policy(shop: Workshop, run: RunRef) -> PolicyVersion:
    """The last version the run published, or the base model."""
    return shop.ledger.latest(run.run_id) or base_policy(shop, run)


def run_dir(run: RunRef) -> Path:
    """The experiment folder of a run on this machine."""
    return settings().home_dir / "experiments" / run.run_id


def weights_dir(policy_id: str) -> Path:
    """Where this machine publishes a policy's weights."""
    return settings().home_dir / "policies" / policy_id


def prune_weights(shop: Workshop, run: RunRef) -> list[str]:
    """Delete local weights of the run's older GRPO versions; warm start and the newest `keep_versions` stay."""
    versions = [p for p in shop.ledger.of_run(run.run_id) if p.kind == "grpo"]
    stale = versions[: -run.config.keep_versions]
    for policy in stale:
        shutil.rmtree(weights_dir(policy.id), ignore_errors=True)
    return [policy.id for policy in stale]


def _weights_digest(uri: str) -> str:
    directory = Path(uri)
    if not directory.is_dir():
        return uri
    files = sorted(directory.glob("*.safetensors")) or sorted(directory.glob("*.bin"))
    if not files:
        raise ConfigurationError(
            f"{uri} is a directory without *.safetensors. Give a Hugging Face model directory or hub id, "
            "or run `make model` for the embedded one."
        )
    return content_hash([_file_digest(path) for path in files])


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
