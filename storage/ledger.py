"""The policy ledger: every policy version, what it was trained from and on, and what a bad trajectory touched.

base v0 --batch b_1--> v1 --batch b_2--> v2          lineage("v2") tells all of it, down to trajectories
"""

from collections.abc import Collection, Iterator

import polars as pl

from assay.errors import CommitConflict, StoreError
from assay.records import DatasetRef, PolicyVersion, record
from storage.rows import policies_from, policy_rows
from storage.store import Store


@record
class Ancestor:
    """One version of a lineage; `batches` maps each batch that made it to the trajectories in that batch's loss."""

    policy: PolicyVersion
    batches: dict[str, tuple[str, ...]]


class Ledger:
    """Policy versions in a store. Versions are immutable: recording one twice changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(self, policy: PolicyVersion) -> DatasetRef:
        """Add a version. The id follows from the lineage: CommitConflict when it is known with another one."""
        ref = self._store.commit("policies", policy_rows([policy]), key=_key(policy.id), run_id=policy.run_id)
        (known,) = policies_from(self._store.read(ref))
        ours, theirs = _lineage_of(policy), _lineage_of(known)
        if ours != theirs:
            raise CommitConflict(
                f"Policy {policy.id} is in the ledger of {self._store.uri} as {theirs} (kind, parent, batches), not as "
                f"{ours}. An id must follow from the lineage: give the new version an id of its own."
            )
        return ref

    def find(self, policy_id: str) -> PolicyVersion | None:
        """The version, or None."""
        ref = self._store.find("policies", _key(policy_id))
        return policies_from(self._store.read(ref))[0] if ref else None

    def get(self, policy_id: str) -> PolicyVersion:
        """The version; StoreError when the ledger has none of this id."""
        policy = self.find(policy_id)
        if policy is None:
            raise StoreError(
                f"The ledger of {self._store.uri} has no policy {policy_id!r}. "
                'Known ones: assay sql "FROM policies SELECT policy_id, name, run_id".'
            )
        return policy

    def of_run(self, run_id: str) -> list[PolicyVersion]:
        """The versions a run recorded, oldest first. A base model belongs to the run that recorded it first."""
        return [policy for policy in self.all() if policy.run_id == run_id]

    def latest(self, run_id: str) -> PolicyVersion | None:
        """The run's version with most updates (the newest of equals), or None before it recorded one."""
        return max(self.of_run(run_id), key=lambda p: (p.num_updates, p.created_at), default=None)

    def all(self) -> list[PolicyVersion]:
        """Every version, in the order of recording."""
        return policies_from(self._store.frame("policies"))

    def ancestors(self, policy_id: str) -> list[PolicyVersion]:
        """The version, its parent, and so on to the base."""
        return list(self._climb(policy_id))

    def lineage(self, policy_id: str) -> list[Ancestor]:
        """From the base to the version: each with its batches and the trajectories that were in their loss."""
        chain = self.ancestors(policy_id)[::-1]
        used = self._used({batch_id for policy in chain for batch_id in policy.batch_ids})
        return [Ancestor(policy=p, batches={b: used.get(b, ()) for b in p.batch_ids}) for p in chain]

    def batches_of(self, policy_id: str) -> tuple[str, ...]:
        """Batches that made the version from its parent."""
        return self.get(policy_id).batch_ids

    def trajectories_of(self, batch_id: str) -> tuple[str, ...]:
        """Trajectories in the batch's loss, sorted."""
        return self._used({batch_id}).get(batch_id, ())

    def policies_touched_by(self, trajectory_ids: Collection[str]) -> list[PolicyVersion]:
        """Versions whose weights depend on any of the trajectories, in the order of recording.

        A trajectory acts through the loss or through its group's baseline, and on all descendants.
        """
        acted = pl.col("used") | pl.col("in_baseline")
        rows = self._store.frame("batches").filter(acted & pl.col("trajectory_id").is_in(list(trajectory_ids)))
        batches = set(rows["batch_id"])
        policies = self.all()
        touched = {p.id for p in policies if batches & set(p.batch_ids)}
        while True:
            more = {p.id for p in policies if p.parent in touched} - touched
            if not more:
                return [p for p in policies if p.id in touched]
            touched |= more

    def _used(self, batch_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        rows = self._store.frame("batches").filter(pl.col("used") & pl.col("batch_id").is_in(list(batch_ids)))
        grouped = rows.group_by("batch_id").agg(pl.col("trajectory_id").sort())
        return {batch_id: tuple(ids) for batch_id, ids in grouped.iter_rows()}

    def _climb(self, policy_id: str) -> Iterator[PolicyVersion]:
        known = {policy.id: policy for policy in self.all()}
        seen: set[str] = set()
        wanted: str | None = policy_id
        while wanted is not None:
            if wanted in seen:
                raise StoreError(
                    f"The lineage of policy {policy_id!r} runs in a circle at {wanted!r}; mend the ledger."
                )
            seen.add(wanted)
            policy = known.get(wanted) or self.get(wanted)
            yield policy
            wanted = policy.parent


def _key(policy_id: str) -> str:
    return f"policy/{policy_id}"


def _lineage_of(policy: PolicyVersion) -> tuple[str, str | None, tuple[str, ...]]:
    return (policy.kind, policy.parent, policy.batch_ids)
