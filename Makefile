# Needs make and Python 3.10 or newer; everything else is installed into .venv, by uv where it is at hand.
#   make demo PYTHON=python3.12

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/.installed-base
DEV    := $(VENV)/.installed-dev

ifneq ($(shell command -v uv 2>/dev/null),)
INSTALL := uv pip install --quiet --python $(BIN)/python
CREATE  := uv venv --quiet --allow-existing --python $(PYTHON) $(VENV)
else
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CREATE  := $(PYTHON) -m venv $(VENV) && $(INSTALL) --upgrade pip
endif

# A GPU takes pycuda, which is built on the spot. A host with no C++ compiler takes one as a wheel.
ifneq ($(wildcard /dev/nvidiactl /dev/dxg /dev/nvhost-gpu),)
EXECUTORS += $(VENV)/.installed-gpu
endif
ifeq ($(shell command -v g++ || command -v clang++ || command -v c++ 2>/dev/null),)
EXECUTORS += $(VENV)/.installed-emulator
endif

# Tests start hundreds of processes, each of which would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test soak lint .style .types format gpu clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(BASE) $(EXECUTORS) ## tune a kernel for a 512 x 512 x 512 problem, on a GPU or without one
	@$(BIN)/gemmgen tune 512x512x512

# pytest runs a process a core: threads of numpy's products would wait for each other's cores.
test: lint $(EXECUTORS) ## lint, then every test that this machine can run
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal

soak: $(DEV) $(EXECUTORS) ## what takes long: all seeded bugs, 500 correct kernels, mutants, ten minutes of fuzzing
	@$(BIN)/gemmgen selfcheck
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal -m soak
	@$(BIN)/gemmgen fuzz --minutes 10

lint: $(DEV) ## style, types, and which module may import which
	@$(MAKE) --no-print-directory --jobs 2 --output-sync .types .style

.style:
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo

.types:
	@$(BIN)/mypy

format: $(DEV) ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

gpu: $(BASE) ## build and install pycuda; `make demo` does it where it finds a GPU
	@$(BIN)/python -m gemmgen.run.gpu.install
	@touch $(VENV)/.installed-gpu

clean: ## remove the environment and the caches
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "gemmgen needs Python 3.10 or newer: make PYTHON=..."; exit 1; }
ifeq ($(shell command -v uv 2>/dev/null),)
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	    || { echo "$(PYTHON) cannot make a virtual environment: apt install python3-venv, or install uv"; exit 1; }
endif
	@echo "installing into $(VENV)"
	@$(CREATE)

$(BASE): pyproject.toml | $(BIN)/python
	@$(INSTALL) --editable .
	@touch $@

$(DEV): $(BASE)
	@$(INSTALL) --editable '.[dev]'
	@touch $@

# Tried once: what fails leaves the emulator to run the kernels.
$(VENV)/.installed-gpu: $(BASE)
	@$(BIN)/python -m gemmgen.run.gpu.install || echo "going on with the emulator; to try again: make gpu"
	@touch $@

$(VENV)/.installed-emulator: $(BASE)
	@$(INSTALL) --editable '.[emulator]'
	@touch $@
