# Two commands: `make demo` shows what treefold does, `make test` proves it.
# Both set up first; setting up twice does nothing.

PYTHON ?= python3.11
VENV   ?= .venv
# CPU-only Linux outside of a pinned index: make PIP_FLAGS="--extra-index-url <PyTorch's CPU index>"
PIP_FLAGS ?=
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup check test test-all demo examples docs results-page lint types bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e ".[dev]"
	-$(BIN)/treefold compile-kernels  # without a compiler, folds run in plain torch
	touch $@

# For every-day work: style, types, and the claims about laws, folds and operators.
check: lint types
	$(BIN)/python -m pytest -n 2 -q -m "not long" tests/algebra tests/fold tests/operators tests/test_layers.py

test: setup
	$(BIN)/python -m pytest -n 2 -q -m "not long"

# With the long matrices and faults.
test-all: setup
	$(BIN)/python -m pytest -n 2 -q

demo: setup
	$(BIN)/treefold sweep second-minimum --preset quick --out runs/demo
	$(BIN)/treefold report runs/demo

# All but zinc.py, whose data has to be fetched.
examples: setup
	for script in $(filter-out examples/zinc.py,$(wildcard examples/*.py)); do $(BIN)/python -W ignore $$script || exit 1; done

docs: setup
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	@echo "the site is docs/_build/html/index.html"

# After a change of results/: the results page, and the tables in README and docs.
results-page: setup
	$(BIN)/python docs/publish_results.py
	@echo "the page is docs/results/report.html"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
