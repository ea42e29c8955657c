"""What is known of domains, as rows: for the table `domains`, the Prefect UI and `assay domains`."""

from dataclasses import asdict
from typing import Any

from assay.ids import canonical_json
from environments.base import Domain
from tasks.run import RunRef
from tasks.workshop import workshop

MAX_LEFT_OUT = 1000


def domain_row(domain_id: str, domain: Domain, run_id: str) -> dict[str, Any]:
    """A row of `domains`."""
    card, left_out = domain.card(), domain.left_out()
    source = card.source
    return {
        "domain": domain_id,
        "environment_version": domain.version,
        "kind": card.kind,
        "summary": card.summary,
        "value": card.value,
        "source": source.name,
        "licence": source.licence,
        "source_version": source.version,
        "source_uri": source.uri,
        "source_digest": source.digest,
        "levels": list(card.levels),
        "images": card.images,
        "num_train": domain.num_tasks("train"),
        "num_heldout": domain.num_tasks("heldout"),
        "num_left_out": len(left_out),
        "num_unsupported": sum(each.unsupported for each in left_out),
        "left_out_json": canonical_json([asdict(each) for each in left_out[:MAX_LEFT_OUT]]),
        **asdict(card.profile),
        "run_id": run_id,
    }


def catalogue_of(run: RunRef) -> list[dict[str, Any]]:
    """What the Prefect UI shows: a short row per domain of the run."""
    rows = (domain_row(name, domain, run.run_id) for name, domain in workshop(run.config).domains.items())
    return [
        {
            "domain": row["domain"],
            "kind": row["kind"],
            "value": row["value"],
            "licence": row["licence"],
            "tasks": "endless" if row["num_train"] is None else f"{row['num_train']} + {row['num_heldout']} held out",
            "left out": row["num_left_out"],
            "seconds": row["expected_s"],
        }
        for row in rows
    ]
