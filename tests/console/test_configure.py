"""Everything wrong on the command line is found before work starts, and said with the value and what is allowed."""

from pathlib import Path

import pytest

from assay.config import presets
from assay.errors import ConfigurationError
from console.configure import Wishes, build_config, expected_s


def test_overrides_reach_nested_keys_and_leave_the_preset_alone() -> None:
    config = build_config(
        Wishes(preset="smoke", sets=["rollout.temperature=1.25", "domains.record_extraction.num_train=7"], seed=3)
    )
    assert config.rollout.temperature == 1.25
    assert config.domains["record_extraction"].num_train == 7
    assert config.seed == 3
    assert build_config(Wishes(preset="smoke")).domains["record_extraction"].num_train == 12


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(preset="nope"), "Unknown preset 'nope'. Known: "),
        (Wishes(preset="smoke", sets=["temperature"]), "is not key=value"),
        (Wishes(preset="smoke", sets=["rollout.temprature=1"]), "rollout.temprature"),
        (Wishes(preset="smoke", sets=["seed.x=1"]), "seed is the value 0"),
        (Wishes(preset="smoke", sets=["seed=[1"]), "is not a YAML value"),
        (Wishes(preset="smoke", sets=["rollout.group_size=1"]), "group_size"),
        (Wishes(preset="smoke", domains="cooking"), "Unknown domain 'cooking'"),
        (Wishes(preset="smoke", domains=" , "), "Unknown domain"),
        (Wishes(file=Path("/nonexistent.yaml")), "Cannot read the config file /nonexistent.yaml"),
    ],
)
def test_a_mistake_is_named_with_its_value(wishes: Wishes, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_config(wishes)
    assert said in str(caught.value)


def test_a_config_file_is_read_like_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("name: mine\ndomains: {record_extraction: {num_train: 3}}\n")
    assert build_config(Wishes(file=path, iterations=2)).iterations == 2
    path.write_text("- a list\n")
    with pytest.raises(ConfigurationError, match="holds list, not keys"):
        build_config(Wishes(file=path))


def test_choosing_another_plugin_drops_the_options_of_the_first() -> None:
    sets = ["sandbox.options.fault_rate=0.3"]
    kept = build_config(Wishes(preset="smoke", sets=sets, plugins={"sandbox": "bubblewrap"}))
    assert kept.sandbox.options == {"fault_rate": 0.3}
    other = build_config(Wishes(preset="smoke", sets=sets, plugins={"sandbox": "pkg:Other", "engine": None}))
    assert other.sandbox.options == {}
    assert other.engine.id == "transformers"


@pytest.mark.parametrize("name", presets())
def test_every_preset_builds_and_says_how_long_it_takes(name: str) -> None:
    seconds = expected_s(build_config(Wishes(preset=name)))
    assert seconds is not None
    assert 30 < seconds < 3600


def test_an_unknown_model_has_no_expected_time() -> None:
    assert expected_s(build_config(Wishes(preset="smoke", model="some/model"))) is None
