PYTHON ?= python3
VENV ?= .venv

PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test docs lint format clean
.NOTPARALLEL:

help:
	@echo "Targets:"
	@echo "  demo    install the package into $(VENV) and run the demonstration"
	@echo "  test    install the development tools into $(VENV), check the style, run the tests"
	@echo "  docs    install sphinx into $(VENV) and build the documentation into docs/_build/html"
	@echo "  lint    check style and formatting only"
	@echo "  format  fix style and formatting in place"
	@echo "  clean   remove caches, build products, demo output and documentation (keeps $(VENV))"
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV)"

demo: $(VENV)/.demo
	@echo "Running examples/demo.py ..."
	$(PY) examples/demo.py

test: lint
	@echo "Running the tests ..."
	SCIPY_ARRAY_API=1 $(PY) -m pytest -n 2

docs: $(VENV)/.docs
	@echo "Running the examples and building the documentation ..."
	$(PY) -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

lint: $(VENV)/.test
	@echo "Checking style and formatting ..."
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(VENV)/.test
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

$(VENV)/.demo: pyproject.toml constraints.txt
	@echo "Installing the package into $(VENV) (the first time takes a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[plot]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt
	@echo "Installing the package and the development tools into $(VENV) (the first time takes a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt
	@echo "Installing the package and sphinx into $(VENV) (the first time takes a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[docs]'
	@touch $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache demo_output
	rm -rf docs/_build docs/gallery docs/generated
	find . -path './.git' -prune -o -path './$(VENV)' -prune -o -type d -name __pycache__ -exec rm -rf {} +
