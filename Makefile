# Everything here makes its own environment in .venv; nothing is installed outside it.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
SHELL := /bin/bash
# The tests start the program thousands of times: what is imported is compiled once, whatever the machine's image says
# of bytecode; what is not imported is never compiled (--no-compile).
export PYTHONDONTWRITEBYTECODE :=

define check-python
@test -n "$(PYTHON)" || { echo "repoagent needs Python 3.10 or newer: put one on PATH or use make PYTHON=/path/to/python"; exit 1; }
endef

.PHONY: demo test lint check unit soak bench bench-first-byte bench-local bench-patch bench-cochange bench-history bench-split bench-large bench-memory bench-recall bench-window reference docs clean

# mypy runs while the tests do: they wait for timers and terminals a quarter of their time.
test: $(VENV)/.ready
	@$(MAKE) --no-print-directory -j 2 lint unit

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What an edit must pass: lint, and the tests of what changed, tests/llm/providers for repoagent/llm/providers.
check: $(VENV)/.ready
	$(BIN)/ruff check --quiet .
	@tests=$$(for list in "diff --name-only --diff-filter=d HEAD" "ls-files --others --exclude-standard"; do \
	  git $$list -- 'repoagent/*.py' 'tests/*test_*.py'; done | while read -r path; do case $$path in repoagent/*) \
	  path=tests/$${path#repoagent/}; until [ -d "$$path" ]; do path=$${path%/*}; done; esac; echo "$$path"; done \
	  | grep -vx tests | sort -u); [ -z "$$tests" ] || $(BIN)/pytest -n auto -m "not soak" $$tests || [ $$? = 5 ]

unit: $(VENV)/.compiled
	$(BIN)/pytest -n auto --dist worksteal -m "not soak"

# What the tests import is compiled once, before each worker would compile it.
$(VENV)/.compiled: $(VENV)/.ready
	@$(BIN)/pytest --collect-only -qq >$@ || { cat $@; rm $@; exit 1; }

soak: $(VENV)/.ready
	$(BIN)/pytest -n auto --dist worksteal -m soak

# The demo needs few packages: if there is no .venv, it gets a small one of its own.
DEMO_VENV := $(if $(wildcard $(VENV)/.ready),$(VENV),.venv-demo)
demo: $(DEMO_VENV)/.ready
	@$(DEMO_VENV)/bin/python -m demo

.venv-demo/.ready: demo/requirements.txt
	$(check-python)
	@echo "creating .venv-demo (once)"
	@$(PYTHON) -m venv .venv-demo
	@printf 'installing packages '
	@set -o pipefail; .venv-demo/bin/python -m pip install --disable-pip-version-check --no-compile --only-binary :all: \
	  -r $< 2>.venv-demo/pip.log | while read -r word _; do [ "$$word" != Collecting ] || printf .; done \
	  || { echo; cat .venv-demo/pip.log; exit 1; }
	@printf '\n\n' && touch $@

bench: $(VENV)/.ready
	$(BIN)/python -m bench.edit

# make bench-first-byte ARGS="--runs 15"
bench-first-byte: $(VENV)/.ready
	$(BIN)/python -m bench.first_byte $(ARGS)

# make bench-local ARGS="--model local/PATH.gguf"
bench-local: $(VENV)/.ready
	$(BIN)/python -m bench.local $(ARGS)

# make bench-patch ARGS="--cases 1500 --jobs 2"
bench-patch: $(VENV)/.ready
	$(BIN)/python -m bench.patch $(ARGS)

# make bench-cochange ARGS="--repo PATH..."; the same for the index
bench-cochange: $(VENV)/.ready
	$(BIN)/python -m bench.cochange $(ARGS)
	$(BIN)/python -m bench.cochange.missing $(ARGS)

bench-history: $(VENV)/.ready
	$(BIN)/python -m bench.history $(ARGS)

# make bench-split ARGS="--per-kind 2 --large 0 --no-times --edits 0 --no-baselines" is quick; without, it needs .[bench]
bench-split: $(VENV)/.ready
	$(BIN)/python -m bench.split $(ARGS)

bench-large: $(VENV)/.ready
	$(BIN)/python -m bench.large $(ARGS)

bench-memory: $(VENV)/.ready
	$(BIN)/python -m bench.memory $(ARGS)

bench-recall: $(VENV)/.ready
	$(BIN)/python -m bench.recall $(ARGS)

# make bench-window ARGS="--runs 20 --context 32000"
bench-window: $(VENV)/.ready
	$(BIN)/python -m bench.window $(ARGS)

reference: $(VENV)/.ready
	$(BIN)/python docs/reference.py

# the pages as a site, in site/
docs: reference
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --strict

$(VENV)/.ready: pyproject.toml
	$(check-python)
	@echo "creating $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing the package, linters and test tools"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -U pip  # those of old Pythons take twice as long
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-demo dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
