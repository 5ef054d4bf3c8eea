# Every command sets up what it needs and may be run twice. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Without bytecode every start of the Pulumi program compiles its packages anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: venv
venv: $(READY) ## Make the virtual environment from the lock files

$(READY): requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 …")'
	@echo "making $(VENV) from requirements-dev.txt"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@sed -n '/^uv==/,/# via/p' requirements-dev.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.txt
	@touch $@

.PHONY: demo
demo: $(READY) ## A day of work on the production stack, simulated: instances, waits, cost and decisions (two minutes)
	@$(BIN)/python -m autoscaler simulate --stack stacks/Pulumi.prod.yaml --trace examples/traces/day.yaml

.PHONY: test
test: $(READY) ## Lint, types, layers and all tests that need no real parts (nine minutes on two cores)
	@$(MAKE) -j2 --output-sync=target check unit

.PHONY: unit
unit: $(READY) ## Only the tests that need no real parts
	@$(BIN)/pytest -m "not real" --numprocesses auto --dist loadfile

.PHONY: check
check: $(READY) ## Lint (ruff), types (mypy strict) and layers (import-linter)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "some files are not formatted: make fmt"; exit 1; }
	@$(BIN)/lint-imports --no-cache | tail -n 3
	@$(BIN)/mypy

.PHONY: fmt
fmt: $(READY) ## Format and mend what can be mended
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

.PHONY: tools
tools: $(READY) ## Build etcd, Kubernetes, KWOK, KubeRay and Pulumi, fetch Prometheus: once (about 15 minutes), cached outside the checkout
	@$(BIN)/python -m tools.toolchain build
	@$(BIN)/python -m tools.debian >/dev/null

.PHONY: up
up: tools ## A real cluster and AWS on this computer, `pulumi up` of stack local there, and the runtime
	@$(BIN)/python -m tools.local up
	@$(BIN)/python -m tools.stack up

.PHONY: preview
preview: tools ## What `pulumi up` would change (STACK=local after `make up`; STACK=prod and others at any time)
	@$(BIN)/python -m tools.stack preview $(or $(STACK),local)

.PHONY: upgrade
upgrade: $(READY) ## Bring a stack of an older release to this one, definitions first (STACK=local after `make up`; others with your `pulumi`)
	@$(BIN)/python -m tools.stack upgrade $(or $(STACK),local)

.PHONY: destroy
destroy: $(READY) ## `pulumi destroy` of stack local; the cluster stays
	@$(BIN)/python -m tools.stack destroy

.PHONY: down
down: $(READY) ## Stop everything that `make up` started
	@$(BIN)/python -m tools.local down

.PHONY: e2e
e2e: tools ## The tests marked real, on the real parts
	@$(BIN)/pytest -m "real and alone"
	@$(BIN)/pytest -m "real and not alone" --numprocesses 2 --dist loadfile

.PHONY: bench
bench: tools ## Measurements, one JSON line each (NAME=… for some of them, SCALE=0.1 for a quick look)
	@$(BIN)/python -m tests.bench $(NAME) --scale $(or $(SCALE),1)

.PHONY: model
model: $(READY) ## Explore admission exhaustively on a toy cluster: every order of every write (NAME=… for some; ten minutes)
	@$(BIN)/python -m tests.model $(NAME)

.PHONY: features
features: $(READY) ## Promises, the tests that prove them and their tiers (FORMAT=json for programs)
	@$(BIN)/python -m tools.features --format $(or $(FORMAT),text)

.PHONY: schema
schema: $(READY) ## Write stacks/schema.json and docs/stack-config.md from the config's models
	@$(BIN)/python -m components schema > stacks/schema.json
	@$(BIN)/python -m components reference > docs/stack-config.md

.PHONY: offerings
offerings: $(READY) ## Read from AWS what a region offers into stacks/offerings (REGION=eu-west-1); review the difference
	@$(BIN)/python -m tools.offerings $(or $(REGION),$(error say which region: make offerings REGION=eu-west-1))

.PHONY: prices
prices: $(READY) ## Read from AWS what instances cost in a region into stacks/prices (REGION=eu-west-1); review the difference
	@$(BIN)/python -m tools.prices $(or $(REGION),$(error say which region: make prices REGION=eu-west-1))

.PHONY: lock
lock: $(READY) ## Renew the lock files from the .in files (UPGRADE=1 takes newer versions)
	@$(COMPILE) $(if $(UPGRADE),--upgrade) requirements-dev.in -o requirements-dev.txt
	@$(COMPILE) -c requirements-dev.txt requirements.in -o requirements.txt
	@$(COMPILE) -c requirements-dev.txt autoscaler/requirements.in -o autoscaler/requirements.txt

.PHONY: clean
clean: ## Remove the virtual environment and caches of this checkout
	@if [ -d .local ]; then $(MAKE) down; fi
	@rm -rf $(VENV) .local .hypothesis .pytest_cache .mypy_cache .ruff_cache
