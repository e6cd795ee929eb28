# Two commands do everything: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DATA   ?= ./data
CLUSTER ?= ./cluster
COMPILE = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: setup compiled java run grpc cluster test check codec dashboards docs image bench compare peers chaos pipeline-demo lock clean

# What a node needs. Everything comes from lock files, hashes checked; the project itself is linked in place.
setup: $(VENV)/.node

$(VENV)/.node: requirements-node.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "GoQueue needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || tools/need.sh python3-venv
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements-node.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Where Python is told to write no compiled files, each start of a node would compile all of it again: half a second.
compiled: $(VENV)/.node
	@$(BIN)/python -m compileall -q src

# What tests, benchmarks and the pipeline need beside it, each added once to the same environment.
$(VENV)/.%: requirements-%.lock | $(VENV)/.node
	$(INSTALL) --require-hashes -r $<
	@touch $@

run: setup compiled
	$(BIN)/goqueue serve --data $(DATA)

# What gRPC's door needs, added to the same environment; `make run` opens it from then on.
grpc: $(VENV)/.grpc

# Three nodes and an etcd on this machine. etcd comes from ETCD, the path or the cache, or is built by Go.
cluster: $(VENV)/.cluster compiled
	$(BIN)/goqueue cluster up --nodes 3 --data $(CLUSTER)

# Spark needs Java 17 or 21: what JAVA_HOME or the path names, or Debian's.
java:
	@test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null || tools/need.sh openjdk-17-jre-headless

# What failed beside others gets a second try, alone; see tests/second_try.py for what does not.
# A foreign client, the browser that looks at the report, Prometheus and RabbitMQ come from Debian; without them their tests are skipped.
test: $(VENV)/.test $(VENV)/.docs compiled java
	@command -v kcat >/dev/null || tools/need.sh kcat || true
	@command -v chromium >/dev/null || tools/need.sh chromium || true
	@command -v promtool >/dev/null || tools/need.sh prometheus || true
	@PATH="$$PATH:/usr/sbin" command -v rabbitmq-server >/dev/null || tools/need.sh rabbitmq-server || true
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 3 --dist loadgroup --durations 40 || $(BIN)/python -m tests.second_try

# The chart with the real image on a real Kubernetes of three machines, each a network namespace here; needs root. Kubernetes and
# Helm are built by Go once, in a quarter of an hour on two cores; what cannot be had is said, and the tests are skipped.
.PHONY: test-kubernetes
test-kubernetes: $(VENV)/.test compiled
	@for one in containerd:containerd runc:runc ip:iproute2 nft:nftables; do \
	  PATH="$$PATH:/usr/sbin" command -v $${one%%:*} >/dev/null || tools/need.sh $${one##*:} || true; done
	@test -x /usr/lib/cni/ptp || tools/need.sh containernetworking-plugins || true
	GOQUEUE_LONG_TESTS=1 $(BIN)/python -m tests.kubernetes.built
	GOQUEUE_KUBERNETES_TESTS=1 GOQUEUE_LONG_TESTS=1 PATH="$$PATH:/usr/sbin" $(BIN)/pytest -s tests/kubernetes

# The quick round for every edit.
check: $(VENV)/.test $(VENV)/.docs compiled java
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow" -n 3 --dist loadgroup

# Kafka's messages, from the definitions in tools/kafka_codec; those of gRPC, from src/goqueue/wire/proto.
codec: $(VENV)/.test
	$(BIN)/python -m tools.kafka_codec
	$(BIN)/python -m tools.grpc_api

# Prometheus' rules and Grafana's dashboards under deploy/, from tools/dashboards.
dashboards: $(VENV)/.node
	$(BIN)/python -m tools.dashboards

# The documentation as a site in build/site, to be looked at without the network; open build/site/index.html.
docs: $(VENV)/.docs $(VENV)/.grpc
	$(BIN)/python -m tools.site
	$(BIN)/codespell docs deploy examples *.md

# The container image as a file, for `docker load` and the like; built on Debian 12, without a container engine.
image: $(VENV)/.node
	$(BIN)/python -m tools.image goqueue-image.tar

bench: $(VENV)/.bench compiled java peers
	$(BIN)/python -m bench

# Side by side with other brokers, under an hour; QUICK=1 takes minutes, RESUME=1 goes on with a run that was interrupted. Apache Kafka
# and ElasticMQ come through Maven.
compare: $(VENV)/.bench compiled java peers
	KAFKA_FETCH=1 $(BIN)/python -m bench.compare $(if $(QUICK),--quick --guard,--json build/compare.json $(if $(RESUME),--resume) --docs docs)

# The other brokers come from Debian, and strace, which sees whether they sync; what is missing is left out.
peers:
	@for one in nats-server redis-server rabbitmq-server strace; do \
	  PATH="$$PATH:/usr/sbin" command -v $$one >/dev/null || tools/need.sh $$one || true; done

# Faults on purpose against a cluster of real processes, with a report; root has network namespaces, others loopback.
chaos: $(VENV)/.test compiled chaos-tools
	$(BIN)/python -m chaos --minutes 5 --report build/chaos.html

# Networks, and a wrong clock, come from Debian; what is missing is left out with a word.
.PHONY: chaos-tools
chaos-tools:
	@PATH="$$PATH:/usr/sbin" command -v ip >/dev/null || tools/need.sh iproute2 || true
	@ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || tools/need.sh libfaketime || true

# An hour of a shop's messages through the whole pipeline, with a report at the end.
pipeline-demo: $(VENV)/.pipeline compiled java
	$(BIN)/goqueue pipeline demo

# The tests' lock is resolved first; the others take the same versions.
lock: setup
	$(INSTALL) uv
	$(COMPILE) --extra schemas --extra security --extra cluster --extra grpc --extra link --extra pipeline --extra iceberg --extra s3 --extra rabbitmq --extra dev --output-file requirements-test.lock
	$(COMPILE) --constraint requirements-test.lock --extra schemas --extra security --extra link --output-file requirements-node.lock
	$(COMPILE) --constraint requirements-test.lock --extra cluster --output-file requirements-cluster.lock
	$(COMPILE) --constraint requirements-test.lock --extra grpc --output-file requirements-grpc.lock
	$(COMPILE) --constraint requirements-test.lock --extra pipeline --output-file requirements-pipeline.lock
	$(COMPILE) --constraint requirements-test.lock --extra docs --output-file requirements-docs.lock
	$(COMPILE) --constraint requirements-test.lock --extra pipeline --extra bench --extra grpc --output-file requirements-bench.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
