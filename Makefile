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

# Where the report's page is tested; the same names as in tests/conftest.py.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable chrome microsoft-edge
BROWSER  := $(firstword $(foreach name,$(BROWSERS),$(shell command -v $(name) 2>/dev/null)))

# Tests start hundreds of processes, each of which would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-extras .extras .browser soak lint .style .types format gpu clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(BASE) $(EXECUTORS) ## tune a kernel for a 512 x 512 x 512 problem, on a GPU or without one
	@$(BIN)/gemmgen tune 512x512x512

# pytest runs a process a core: threads of numpy's products would wait for each other's cores.
test: lint $(EXECUTORS) ## lint, then every test that this machine can run
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal

# In an environment of its own: `make test` goes on without what gemmgen does not need.
test-extras: ## the tests of torch, JAX and the report's page in a browser, all of which it installs
	@$(MAKE) --no-print-directory VENV=.venv-extras .extras

.extras: $(VENV)/.installed-extras $(EXECUTORS) .browser
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --extras --numprocesses auto --dist worksteal

.browser:
ifeq ($(BROWSER),)
	@echo "installing Chromium"
	@[ "$$(id -u)" = 0 ] && apt-get -qq update \
	    && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium > /dev/null \
	    || { echo "no browser: install Chromium or Chrome so that it is on the PATH (as root, apt-get does it)"; exit 1; }
endif

soak: $(VENV)/.installed-soak $(EXECUTORS) ## what takes long: all seeded bugs, 500 correct kernels, mutants of them and of gemmgen, ten minutes of fuzzing
	@$(BIN)/gemmgen selfcheck
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal -m soak
	@$(BIN)/python tests/mutants.py --mutants 150 --minutes 20
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
	rm -rf $(VENV) .venv-extras .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
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

$(VENV)/.installed-soak: $(DEV)
	@$(INSTALL) --editable '.[soak]'
	@touch $@

# By pip, which may find a CPU build of torch where its configuration says so: uv does not read that.
$(VENV)/.installed-extras: $(BASE)
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(INSTALL) pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[extras]'
	@touch $@

# Tried once: what fails leaves the emulator to run the kernels.
$(VENV)/.installed-gpu: $(BASE)
	@$(BIN)/python -m gemmgen.run.gpu.install || echo "going on with the emulator; to try again: make gpu"
	@touch $@

$(VENV)/.installed-emulator: $(BASE)
	@$(INSTALL) --editable '.[emulator]'
	@touch $@
