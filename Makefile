# make demo    environment, install, and `dspec build` of the MiniLM example
# make test    environment, system packages where they may be installed, every test   (ARGS="-k name" chooses)
# make lint    ruff, mypy, import contracts
# make bench   how fast `dspec check` is
#
# PYTHON=python3.12        another interpreter (3.11 or newer)
# VENV=.venv               another environment
# TORCH_INDEX=URL          where torch comes from, e.g. https://download.pytorch.org/whl/cpu on Linux, where the
#                          default index has a CUDA build of several GB

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0

.PHONY: demo test lint bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/dspec build examples/minilm/deploy.yaml

test: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python tests/bench/check_speed.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# Each stamp says that a stage of the environment is there, so that a second `make` does nothing.
# torch comes first and by its exact version: an open range, resolved later, may take another build.
$(VENV)/.torch:
	sh .ci/system_packages $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $(TORCH)
	@touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml examples/requirements.txt
	$(PIP) $(TORCH) --editable '.[onnxruntime,examples]'
	$(PIP) --no-deps --requirement examples/requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) $(TORCH) --editable '.[dev]'
	@touch $@
