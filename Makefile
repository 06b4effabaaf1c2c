# `make demo` and `make test` work from a fresh clone: they need Python 3.11 or newer,
# a C compiler (Triton's) and nothing else. Everything is installed into .venv.

PYTHON ?= python3
PYTEST_ARGS ?= -n auto
SEED ?= 0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint format docs fuzz triton-matrix bench-overhead bench-derive bench-coverage bench-inductor clean
.DEFAULT_GOAL := test

demo: $(VENV)/.demo
	$(BIN)/undertow demo

test: $(VENV)/.test
	$(BIN)/pytest $(PYTEST_ARGS)

check: lint docs test

lint: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.check
	$(BIN)/sphinx-build -q -E -W -n --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

fuzz: $(VENV)/.test
	$(BIN)/pytest $(PYTEST_ARGS) tests/fuzz --hypothesis-profile=fuzz \
		--hypothesis-seed=$(SEED)

triton-matrix: $(VENV)/.test
	$(BIN)/python tools/triton_matrix.py

bench-overhead: $(VENV)/.test
	$(BIN)/python benchmarks/overhead.py

bench-derive: $(VENV)/.test
	$(BIN)/python benchmarks/derive_time.py

bench-coverage: $(VENV)/.peers
	$(BIN)/python -m benchmarks.coverage

bench-inductor: $(VENV)/.test
	$(BIN)/python -W ignore -m benchmarks.inductor

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# -- installation: one stamp for each set of extras, renewed when pyproject.toml is --

# $(call install,EXTRAS,STAMPS): pip is quiet about all but warnings and errors.
define install
	@echo "installing undertow[$(1)] into $(VENV) (PyTorch is large: minutes the first time)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$(1)]'
	@touch $(foreach extra,$(2),$(VENV)/.$(extra))
endef

$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	$(call install,demo,demo)

$(VENV)/.test: pyproject.toml | $(BIN)/pip
	$(call install,demo$(comma)test,demo test)

$(VENV)/.peers: pyproject.toml | $(BIN)/pip
	$(call install,demo$(comma)test$(comma)peers,demo test peers)

$(VENV)/.check: pyproject.toml | $(BIN)/pip
	$(call install,demo$(comma)test$(comma)lint$(comma)docs,demo test check)

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "undertow needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1);"; \
		echo "name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; } >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

comma := ,
