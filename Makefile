PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
FUZZ_EXAMPLES ?= 2000

PY := $(VENV)/bin/python
comma := ,
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)

.DEFAULT_GOAL := help
.PHONY: help demo test pytest fuzz bench docs lint format clean
.NOTPARALLEL:

help:
	@echo "Targets:"
	@echo "  demo    install the package into $(VENV) and run the demonstration"
	@echo "  test    install the development tools into $(VENV), check style and types, run the tests"
	@echo "  pytest  run the tests only, with a coverage report"
	@echo "  fuzz    look for input that breaks a promise, with FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) per test"
	@echo "  bench   run the short benchmarks, and compare them with the committed figures"
	@echo "  docs    install sphinx into $(VENV) and build the documentation into docs/_build/html"
	@echo "  lint    check style, formatting and types only"
	@echo "  format  fix style and formatting in place"
	@echo "  clean   remove caches, build products, demo output and documentation (keeps $(VENV))"
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) CONSTRAINTS=$(CONSTRAINTS)"

# Dependency groups need pip 25.1; older ones come with Python 3.11 and 3.12.
define install
	@echo "Installing the package and what this target needs into $(VENV) (the first time takes a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) 'pip>=25.1'
	$(INSTALL) $(1)
	@touch $@
endef

demo: $(VENV)/.demo
	@echo "Running examples/demo.py ..."
	$(PY) examples/demo.py

test: lint pytest

pytest: $(VENV)/.dev
	@echo "Running the tests ..."
	OMP_NUM_THREADS=1 SCIPY_ARRAY_API=1 $(PY) -m pytest -n 2 --dist worksteal --cov=skvdl

fuzz: $(VENV)/.dev
	@echo "Trying random input ..."
	OMP_NUM_THREADS=1 SKVDL_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(PY) -m pytest tests/fuzz --hypothesis-profile=fuzz

bench: $(VENV)/.dev
	@echo "Running the short benchmarks; the machine should have nothing else to do ..."
	$(PY) -m benchmarks.bench_short

docs: $(VENV)/.docs
	@echo "Running the examples and building the documentation ..."
	$(PY) -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

lint: $(VENV)/.dev
	@echo "Checking style, formatting and types ..."
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

$(VENV)/.demo: pyproject.toml $(CONSTRAINTS)
	$(call install,-e '.[plot]')

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS)
	$(call install,-e '.[plot$(comma)images$(comma)fast$(comma)dask]' --group dev)

$(VENV)/.docs: pyproject.toml $(CONSTRAINTS)
	$(call install,-e '.[plot$(comma)images$(comma)fast]' --group docs)

clean:
	rm -rf build dist *.egg-info .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache demo_output
	rm -rf docs/_build docs/gallery docs/generated
	find . -path './.git' -prune -o -path './$(VENV)' -prune -o -type d -name __pycache__ -exec rm -rf {} +
