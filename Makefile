# `make demo` and `make test` need Python 3.11 and nothing else installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DEMO := .demo
INTEROP := .venv-interop
SETUP := $(VENV)/.installed

# The folders of the first of two sessions. Kernels that TensorFlow compiled for the shapes
# of a test stay in the worker process, so one session would take 2.4 GB per process.
FIRST := $(addprefix tests/,analysis config data decoding evaluation layers training \
  training_run)
WORKERS := -n 2 --dist loadfile
ALL_TESTS := --override-ini=addopts="-ra --import-mode=importlib"

.PHONY: demo bench test test-interop test-long test-faults test-load lint format constraints clean

$(SETUP): setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --progress-bar off --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(SETUP)
	$(BIN)/python -m t2t_keras.pipelines.demo --work_dir=$(DEMO)

# Compares with other software, which is installed into .bench/; takes hours. MULTI30K is
# the folder of the Multi30k corpus, which some benchmarks read.
bench: $(SETUP)
	$(BIN)/python benchmarks/bench.py $(if $(MULTI30K),--multi30k=$(MULTI30K))

test: $(SETUP) lint
	$(BIN)/python -m pytest $(WORKERS) $(FIRST); first=$$?; \
	$(BIN)/python -m pytest $(WORKERS) $(addprefix --ignore=,$(FIRST)) && exit $$first

# Compares models with other frameworks, which have an environment of their own.
$(INTEROP)/.installed: tests/interop/requirements.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --progress-bar off --requirement $<
	touch $@

test-interop: $(SETUP) $(INTEROP)/.installed
	INTEROP_PYTHON=$(INTEROP)/bin/python $(BIN)/python -m pytest -m interop $(ALL_TESTS)

# Tests that train or compile for minutes.
test-long: $(SETUP)
	$(BIN)/python -m pytest -m long $(ALL_TESTS)

# Tests with many kills, damaged files and full disks; takes minutes.
test-faults: $(SETUP)
	$(BIN)/python -m pytest -m faults $(ALL_TESTS)

# Many clients request the demo's model, and its version changes meanwhile.
test-load: $(SETUP) $(DEMO)/export
	$(BIN)/python -m pytest -s -m load $(ALL_TESTS)

$(DEMO)/export:
	$(MAKE) demo

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/type_check.py

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Writes the exact versions for the version ranges in setup.py to constraints.txt, from
# which the Makefile installs.
constraints:
	rm -rf .build/constraints && $(PYTHON) -m venv .build/constraints
	.build/constraints/bin/python -m pip install --quiet ".[dev]"
	.build/constraints/bin/python -m pip freeze --all --exclude pip --exclude t2t-keras > constraints.txt

clean:
	rm -rf $(VENV) $(INTEROP) $(DEMO) .build
