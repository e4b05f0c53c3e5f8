# One command each; every target makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help train check format lit test test-all tiny bench gpu curves clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# The stamp is older than pyproject.toml when the dependencies may have changed.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $(READY)

train: $(READY)  ## install, then train examples/shakespeare.sx (2000 steps)
	$(BIN)/sexpgpu run examples/shakespeare.sx

check: $(READY)  ## ruff, mypy --strict, layer contracts
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY)  ## lay out the Python files and sort their imports
	$(BIN)/ruff check --quiet --fix --select I .
	$(BIN)/ruff format --quiet .

lit: $(READY)  ## the FileCheck tests of dialect and passes
	$(BIN)/lit --succinct --workers $(JOBS) lit

# pytest comes last so that its closing line closes the output.
test: check lit  ## check, lit, and every test that is not slow
	$(BIN)/pytest -q -n $(JOBS) -m "not slow"

test-all: check lit  ## check, lit, and every test
	$(BIN)/pytest -q -n $(JOBS)

tiny: $(READY)  ## the shortest truth: every example compiles and trains a few steps
	$(BIN)/pytest -q tests/test_tiny.py

bench: $(READY)  ## how long `check`, a save and loading take, evaluation beside Python, simulated kernels, two steps of GPT-2
	$(BIN)/python -m bench.check_time
	$(BIN)/python -m bench.warm_time
	$(BIN)/python -m bench.load_time
	$(BIN)/python -m bench.evaluator
	$(BIN)/python -m bench.sim_time
	$(BIN)/python -m bench.two_steps

gpu: $(READY)  ## on a machine with a GPU: every kernel against the interpreter, training, times beside PyTorch's
	$(BIN)/python -m bench.gpu.run

curves: $(READY)  ## train from published weights and order, compare with the published numbers
	$(BIN)/python -m bench.curves.run

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache runs bench/curves/out
