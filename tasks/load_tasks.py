"""The tasks of a run: generated from its config, checked for leakage between splits, committed once."""

from collections.abc import Sequence

from prefect import task

from assay.config import PostTrainConfig
from assay.errors import ConfigurationError, EnvironmentAuthorError
from assay.ids import combined_digest, content_hash
from assay.records import DatasetRef, Split, TaskSpec
from assay.settings import settings
from environments.base import Domain, take
from quality.splits import check_splits
from rollouts.images import images_in, refuse_unseen
from storage.rows import task_rows, tasks_from
from tasks.catalogue import domain_row
from tasks.run import RunRef
from tasks.workshop import Workshop, workshop


@task(name="load_tasks", task_run_name="load_tasks {run.name}")
def load_tasks(run: RunRef) -> DatasetRef:
    """Commit the run's tasks and say where they are. Raises EnvironmentAuthorError when the splits overlap."""
    shop = workshop(run.config)
    specs = make_tasks(run.config, shop.domains)
    check_splits(specs)
    cards = [domain_row(name, domain, run.run_id) for name, domain in shop.domains.items()]
    shop.store.commit("domains", cards, key=f"cards/{run.run_id}/{content_hash(cards)}", run_id=run.run_id)
    key = f"set/{combined_digest(spec.id + spec.content_hash for spec in specs)}"
    return shop.store.commit("tasks", task_rows(specs, run.run_id), key=key, run_id=run.run_id)


def make_tasks(config: PostTrainConfig, domains: dict[str, Domain]) -> list[TaskSpec]:
    """Every task of the config, domain by domain: training, held-out, and the planted defects if asked for.

    A domain that has fewer than asked for gives all it has.
    """
    specs: list[TaskSpec] = []
    for name, domain in domains.items():
        wanted = config.domains[name]
        sizes: list[tuple[Split, int]] = [("train", wanted.num_train), ("heldout", wanted.num_heldout)]
        specs += [task for split, size in sizes for task in take(domain, split, size, config.seed)]
        if wanted.include_defects:
            specs += domain.defective_tasks(config.seed)
    _check_unique(specs)
    return specs


def tasks_at(shop: Workshop, ref: DatasetRef) -> list[TaskSpec]:
    """The tasks behind a reference, in the order they were generated."""
    return tasks_from(shop.store.read(ref))


def check_images(shop: Workshop) -> None:
    """Before any work: raise ConfigurationError when a domain's prompts hold images that the engine cannot show to the
    base model, or when a domain has images that the engine shows but the trainer would not see."""
    config = shop.config
    shown = {name: domain for name, domain in shop.domains.items() if domain.card().images}
    refuse_unseen_by(shop, [domain.make_task("train", 0, config.seed) for domain in shown.values()], _model(config))
    if shown and shop.engine.can_show_images(_model(config)) and not shop.trainer.takes_images:
        names = ", ".join(shown)
        raise ConfigurationError(
            f"The policy would see the images of {names}, but the trainer {config.trainer.id!r} takes no images and "
            f"refuses such trajectories. Use a trainer that takes images, or leave out {names}; collecting and "
            "evaluating alone need no trainer."
        )


def refuse_unseen_by(shop: Workshop, specs: Sequence[TaskSpec], model: str) -> None:
    """Raise ConfigurationError when prompts hold images and the engine cannot show them to this model."""
    seeing = [spec for spec in specs if images_in(spec.prompt)]
    if seeing and not shop.engine.can_show_images(model):
        refuse_unseen(
            seeing,
            f"the engine {shop.config.engine.id!r} with the model {model!r}",
            "Use the transformers engine with a vision-language model",
        )


def _model(config: PostTrainConfig) -> str:
    return config.model or settings().model_uri


def _check_unique(specs: list[TaskSpec]) -> None:
    seen: set[str] = set()
    twice = {spec.id for spec in specs if spec.id in seen or seen.add(spec.id)}  # type: ignore[func-returns-value]
    if twice:
        raise EnvironmentAuthorError(f"Task ids occur twice: {sorted(twice)[:5]}. Ids must be unique in a task set.")
