# The seven commands of this repository. Each sets up what it needs first; run `make` alone to read them.

# Desktops need root. As another user the commands below go through sudo; without sudo they say what is missing.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || ! command -v sudo >/dev/null || echo sudo --preserve-env=FRONTDESK_HOME)
BIN := .venv/bin

.PHONY: help setup quickstart image office-image check test test-office bench chaos

help:
	@echo "make setup       system packages that are missing, .venv, and the frontdesk command in it"
	@echo "make quickstart  setup, then the whole loop, small: tasks, training, evaluation and a report"
	@echo "make check       ruff, mypy and the import contracts"
	@echo "make test        setup, the light desktop image, then every test"
	@echo "make test-office the office desktop image, then the tests of its applications"
	@echo "make bench       the figures in the README, measured again"
	@echo "make chaos       five minutes of a hub in a storm: workers, connections and probes killed under it"

setup:
	@scripts/setup

quickstart: setup
	@$(AS_ROOT) $(BIN)/frontdesk quickstart

image: setup
	@$(AS_ROOT) $(BIN)/frontdesk image build light

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: image
	$(AS_ROOT) $(BIN)/python -m pytest

office-image: setup
	@$(AS_ROOT) $(BIN)/frontdesk image build office

test-office: office-image
	$(AS_ROOT) $(BIN)/python -m pytest -m office

bench: image office-image
	$(AS_ROOT) $(BIN)/frontdesk bench --all

chaos: image
	$(AS_ROOT) $(BIN)/frontdesk bench chaos
