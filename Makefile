# Two commands do everything: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DATA   ?= ./data
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
  --no-emit-find-links

.PHONY: setup java run test check bench pipeline-demo lock clean

setup: $(STAMP)

# Everything comes from the lock file, hashes checked; the project itself is linked in place.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "GoQueue needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || tools/need.sh python3-venv
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

run: setup
	$(BIN)/goqueue serve --data $(DATA)

# Spark needs Java 17 or 21: what JAVA_HOME or the path names, or Debian's.
java:
	@test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null || tools/need.sh openjdk-17-jre-headless

# A foreign client and the browser that looks at the report come from Debian; without them their tests are skipped.
test: setup java
	@command -v kcat >/dev/null || tools/need.sh kcat || true
	@command -v chromium >/dev/null || tools/need.sh chromium || true
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 3 --dist loadgroup

# The quick round for every edit.
check: setup java
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow" -n 3 --dist loadgroup

# The other brokers come from Debian, their clients from a lock file of their own; what is missing is left out.
bench: setup java
	@for one in nats-server redis-server rabbitmq-server; do \
	  PATH="$$PATH:/usr/sbin" command -v $$one >/dev/null || tools/need.sh $$one || true; done
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-peers.lock
	$(BIN)/python -m bench

# An hour of a shop's messages through the whole pipeline, with a report at the end.
pipeline-demo: setup java
	$(BIN)/goqueue pipeline demo

lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) pyproject.toml --extra dev --extra pipeline --extra schemas --output-file requirements.lock
	$(COMPILE) pyproject.toml --extra peers --constraint requirements.lock --output-file requirements-peers.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
