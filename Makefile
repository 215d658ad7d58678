# The two commands of a newcomer: `make demo` and `make test`. Everything runs in .venv, which the targets make.
PYTHON ?= python3
BIN := .venv/bin
# One more than there are cores: tests wait for processes of their own a third of the time.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --no-loadscope-reorder
export OMP_NUM_THREADS := 1
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: demo test test-all conformance check-server check-pooling smoke-hub lint format bench clean

demo: .venv/.core
	$(BIN)/arm demo

test: .venv/.dev
	$(PYTEST) -m "not slow"

test-all: .venv/.all
	$(PYTEST)

conformance: .venv/.dev
	$(BIN)/python tests/conformance/run.py

check-server: .venv/.dev  # URL=http://127.0.0.1:8000/v1: samples and labels a few states with a server that runs there
	ARM_TEST_SERVER_URL=$(URL) $(BIN)/python -m pytest -q -rP tests/builders/generate/test_real_server.py

check-pooling: .venv/.dev  # URL=http://127.0.0.1:8000: a vLLM with a scalar model, as docs/serving.md says
	ARM_TEST_POOLING_URL=$(URL) $(BIN)/python -m pytest -q -rP tests/inference/test_pooling_server.py

smoke-hub: .venv/.core  # needs HF_TOKEN; publishes to a private repository and deletes it
	$(BIN)/python tests/smoke_hub.py

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p action_reward_models  # tests, docs and benchmarks lie within

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.dev
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build dist arm-demo *.egg-info .mypy_cache .pytest_cache .ruff_cache

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.core: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[hub]"
	touch $@

.venv/.all: .venv/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,scale]"
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@ .venv/.core
