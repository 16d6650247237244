# `make` without a target lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SILENT:
.PHONY: help demo pattern check-pattern test test-release screenshots check fix bench chaos failovers audit lock setup site clean test-packages test-cluster test-clients chart-tools bench-competitors images wheelhouse bytecode test-bytecode release release-check

PYTHON ?= python3
BIN := .venv/bin
# More than there are cores, because tests wait as long as they compute; at most five, because each runs a PostgreSQL.
TEST_PROCESSES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); n=$$((n + 3)); [ $$n -gt 5 ] && n=5; echo $$n)
CHAOS_FAULTS ?= 500
FAILOVERS ?= --faults 12 --only switchover --only 'primary killed' --only 'primary frozen' --only 'primary cut off'
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command 'make lock' $(LOCK_ARGS)

help: ## list the targets
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/demo.ready ## set up, then run examples/shop/ on an embedded Postgres until Ctrl-C (DEMO_ARGS='--fresh')
	exec $(BIN)/wakeboard up examples/shop/ $(DEMO_ARGS)

pattern: .venv/patterns.ready ## set up, then run a folder of examples/patterns until Ctrl-C (NAME=email-batch)
	cd examples/patterns/$(or $(NAME),$(error which one? for example NAME=email-batch)) && exec $(CURDIR)/$(BIN)/wakeboard up . $(PATTERN_ARGS)

check-pattern: .venv/patterns.ready ## run a pattern, kill its workers, count lost and doubled effects (NAME=email-batch)
	exec $(BIN)/python examples/patterns/check.py $(or $(NAME),$(error which one? for example NAME=email-batch)) $(PATTERN_ARGS)

test: .venv/dev.ready bytecode test-packages test-cluster test-clients chart-tools images ## run every test (TEST_ARGS='-k lease')
	exec env PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(TEST_PROCESSES) $(TEST_ARGS) # keep what pytest compiles

test-release: images chart-tools ## run the tests that only a release needs: equal bytes when built twice, 1,000 plans
	exec $(BIN)/pytest -m release

check: .venv/dev.ready ## check style, types, layers, generated files and the chart; change nothing
	$(BIN)/ruff format --quiet --check . || { echo 'Some files are not formatted; type: make fix'; exit 1; }
	$(BIN)/ruff check --quiet .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/generated.py --check
	$(BIN)/python tools/check_repo.py
	$(BIN)/python -m tools.check_chart
	$$($(BIN)/python -m tools.chart_linters actionlint) -shellcheck= -pyflakes=

fix: .venv/dev.ready ## format, apply automatic fixes, regenerate files
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .
	$(BIN)/python tools/generated.py

bench: .venv/dev.ready bytecode test-packages test-cluster ## measure for more than an hour; write docs/benchmarks.md (BENCH_ARGS=drain, '--large claims', --help)
	exec $(BIN)/python -m bench $(BENCH_ARGS)

bench-competitors: .venv/dev.ready bytecode ## measure other job queues, which it installs (BENCH_ARGS='--help')
	exec $(BIN)/python -m bench.competitors $(BENCH_ARGS)

chaos: .venv/dev.ready bytecode test-packages ## inject random faults, and check that no run is lost or duplicated (CHAOS_FAULTS=10000 CHAOS_SEED=7; CHAOS_ARGS=--upgrade)
	exec $(BIN)/python -m chaos --faults $(CHAOS_FAULTS) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) $(CHAOS_ARGS)

failovers: .venv/dev.ready bytecode test-packages ## fail over a Patroni cluster, with and without a synchronous standby; print what was lost, doubled, silent
	$(BIN)/python -m chaos --failover $(FAILOVERS)
	exec $(BIN)/python -m chaos --asynchronous $(FAILOVERS)

release: .venv/dev.ready chart-tools ## build all that a release consists of into dist/; publish nothing (RELEASE_ARGS='--only wheel npm')
	$(BIN)/python -m tools.release $(RELEASE_ARGS)

release-check: .venv/dev.ready chart-tools test-cluster ## install, compile and run what is in dist/, and nothing else (RELEASE_ARGS='--only npm')
	$(BIN)/python -m tools.release.check $(RELEASE_ARGS)

screenshots: .venv/dev.ready test-packages ## take a picture of every page of the board, into build/screenshots (SCREENSHOTS_ARGS=--docs)
	$(BIN)/python -m tools.screenshots $(SCREENSHOTS_ARGS)

site: .venv/site.ready ## build the documentation site into build/site
	$(BIN)/python -m tools.build_site

audit: .venv/dev.ready ## compare the locked versions with the advisories that the package registries offer
	$(BIN)/python -m tools.audit

lock: .venv/dev.ready ## resolve dependencies into locks/ (LOCK_ARGS=--upgrade takes the newest)
	$(COMPILE) pyproject.toml --extra board --extra jobs --extra local --extra operator --extra otel --group dev --output-file locks/dev.txt
	$(COMPILE) pyproject.toml --extra local --constraint locks/dev.txt --output-file locks/local.txt
	$(COMPILE) pyproject.toml --extra jobs --extra otel --constraint locks/dev.txt --output-file locks/worker.txt
	$(COMPILE) pyproject.toml --extra board --constraint locks/dev.txt --output-file locks/board.txt
	$(COMPILE) pyproject.toml --extra operator --extra otel --constraint locks/dev.txt --output-file locks/operator.txt
	$(COMPILE) --group build --constraint locks/dev.txt --output-file locks/build.txt
	$(COMPILE) pyproject.toml --extra local --group patterns --constraint locks/dev.txt --output-file locks/patterns.txt
	$(COMPILE) --group site --constraint locks/dev.txt --output-file locks/site.txt
	$(COMPILE) --group go --output-file locks/go.txt
	$(COMPILE) --group competitors --output-file locks/competitors.txt
	$(BIN)/python -m bench.competitors --lock
	$(COMPILE) --group checkov --output-file locks/checkov.txt
	$(COMPILE) --group audit --output-file locks/audit.txt

setup: .venv/dev.ready ## create .venv with everything that the other targets need

clean: ## remove .venv, what is built, caches and the demo's database
	rm -rf .venv build dist .wakeboard examples/*/.wakeboard examples/patterns/*/.wakeboard .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

bytecode: .venv/dev.ready # compile our modules, as in an installed package, even if PYTHONDONTWRITEBYTECODE is set
	$(BIN)/python -m compileall -q wakeboard worker operator bench chaos tests

test-bytecode: .venv/dev.ready # compile the tests as pytest does, once for all processes of a parallel run
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only --quiet >/dev/null

test-packages: # install what tests need in addition to .venv: PostgreSQL 15, Patroni, pgBackRest, PgBouncer, Chromium
	$(PYTHON) tools/bootstrap.py test-packages

test-cluster: .venv/dev.ready # build the Kubernetes programs that testbed/cluster runs, once, into the user's cache
	$(BIN)/python -m testbed.cluster.binaries

test-clients: .venv/dev.ready # compile the workers of clients/ (TypeScript, Go) and oauth2-proxy, once, into the user's cache
	$(BIN)/python -m testbed.clients
	$(BIN)/python -m testbed.login_proxy.oauth2_proxy

chart-tools: .venv/dev.ready # install what checks the chart (helm, kube-score, checkov and others) into the user's cache
	$(BIN)/python -m tools.chart_linters

images: .venv/dev.ready # build the images of the test cluster, wakeboard's and a Postgres, if the code has changed
	$(BIN)/python -m testbed.cluster.images

wheelhouse: .venv/dev.ready ## download what the Dockerfile installs, to build images without a network
	$(BIN)/python -m tools.wheelhouse

.venv/demo.ready: tools/bootstrap.py pyproject.toml locks/build.txt locks/local.txt
	$(PYTHON) tools/bootstrap.py demo

.venv/patterns.ready: tools/bootstrap.py pyproject.toml locks/build.txt locks/patterns.txt
	$(PYTHON) tools/bootstrap.py patterns

.venv/site.ready: tools/bootstrap.py pyproject.toml locks/build.txt locks/site.txt
	$(PYTHON) tools/bootstrap.py site

.venv/dev.ready: tools/bootstrap.py pyproject.toml locks/build.txt locks/dev.txt
	$(PYTHON) tools/bootstrap.py dev
