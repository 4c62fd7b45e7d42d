# `make demo` and `make test` need Python 3.11 and nothing else installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DEMO := .demo
SETUP := $(VENV)/.installed

ALL_TESTS := --override-ini=addopts="-ra --import-mode=importlib"

.PHONY: demo bench test test-long test-faults test-load lint format constraints clean

$(SETUP): setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --progress-bar off --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(SETUP)
	$(BIN)/python -m t2t_keras.pipelines.demo --work_dir=$(DEMO)

# Beside other software, which is installed into .bench/; takes hours. MULTI30K is the
# folder of that corpus, for what reads real text.
bench: $(SETUP)
	$(BIN)/python benchmarks/bench.py $(if $(MULTI30K),--multi30k=$(MULTI30K))

test: $(SETUP) lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Trainings and compilations that take minutes.
test-long: $(SETUP)
	$(BIN)/python -m pytest -m long $(ALL_TESTS)

# Kills, damaged files and full disks, over and over: minutes, not for every change.
test-faults: $(SETUP)
	$(BIN)/python -m pytest -m faults $(ALL_TESTS)

# Many clients against the demo's model, with a change of versions in the middle.
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

# Writes the exact versions that the Makefile installs, from the ranges in setup.py.
constraints:
	rm -rf .build/constraints && $(PYTHON) -m venv .build/constraints
	.build/constraints/bin/python -m pip install --quiet ".[dev]"
	.build/constraints/bin/python -m pip freeze --all --exclude pip --exclude t2t-keras > constraints.txt

clean:
	rm -rf $(VENV) $(DEMO) .build
