"""Tasks with images meet engines and trainers that would not see them: an error before anything is started."""

import pytest

from assay.config import PostTrainConfig, parse_config
from assay.errors import ConfigurationError
from tasks.load_tasks import check_images
from tasks.workshop import Workshop
from training.tiny_model import build_tiny_model


def config(engine: str, model: str, domain: str = "chart_reading") -> PostTrainConfig:
    return parse_config({"model": model, "domains": {domain: {}}, "engine": {"id": engine}})


def test_an_engine_that_takes_no_images_is_named_with_the_domain_and_what_to_do(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model = str(build_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))
    with pytest.raises(ConfigurationError, match=r"chart_reading hold images, but the engine 'transformers' with the"):
        check_images(Workshop(config("transformers", model)))


def test_a_trainer_that_would_not_see_them_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"images of chart_reading, but the trainer 'embedded' takes no"):
        check_images(Workshop(config("scripted", "")))


def test_domains_without_images_ask_nothing_of_the_engine() -> None:
    shop = Workshop(config("scripted", "", "record_extraction"))
    check_images(shop)
    assert "engine" not in shop.__dict__
