# Every command makes .venv itself if it is missing. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo site test test-all slow-share fuzz fuzz-native simulate chaos bench versions pyiceberg lint format wheel release sbom audit clean

help:  ## list the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv with the locked packages; name what the machine lacks
	@sh .ci/setup

demo: setup  ## start the embedded stack, replay 336,776 flights, show the tables
	@.venv/bin/floe demo

site: setup  ## build/site: the pages of docs/ with search, for any web server; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo "build/site/index.html"

# Long tests take turns, by the number of commits: TURN=2, or TURN= for all of them.
TURN ?= $(shell git rev-list --count HEAD 2>/dev/null)
test: setup  ## import contracts, unit tests, and tests on a real broker, catalog and Spark
	@.venv/bin/lint-imports
	@.venv/bin/python -m testbed.servers.fetch
	@.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not chaos and not packaging" $(if $(TURN),--turn $(TURN))

test-all: setup  ## everything: also the slow, chaos and packaging tests
	@.venv/bin/lint-imports
	@.venv/bin/python -m pytest

slow-share: setup  ## the slow tests whose turn it is by the number of commits; SHARE=3: that one; MINUTES=10: what fits
	@.venv/bin/python -m tests.shares run $(if $(SHARE),--share $(SHARE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PACE),--pace $(PACE))

DOCUMENTS ?= 1000000
SEED ?= 1
fuzz: setup  ## generated documents by every way beside an oracle: DOCUMENTS=1000000 SEED=1; the report goes into docs/reliability.md
	@.venv/bin/python -X faulthandler -m tests.fuzz.run --documents $(DOCUMENTS) --seed $(SEED) --spark --record

SECONDS ?= 120
fuzz-native: setup  ## the compiled modules under address and undefined-behaviour sanitizers: SECONDS=120 SEED=1
	@.venv/bin/python -m tests.fuzz.native --seconds $(SECONDS) --seed $(SEED)

HISTORIES ?= 2000
simulate: setup  ## recovery and maintenance over a simulated log, catalog, store and clocks: HISTORIES=2000 SEED=1
	@.venv/bin/python -m tests.simulator.run --histories $(HISTORIES) --seed $(SEED)

chaos: setup  ## only the tests that kill processes
	@.venv/bin/python -m pytest -m chaos

ifdef SHORT
bench: setup
	@.venv/bin/python -m benchmarks.hot_path --records 20000 --rounds 1
	@.venv/bin/python -m benchmarks.decode_cost --records 10000 --repeats 1
	@.venv/bin/python -m benchmarks.format_cost --records 2000
	@.venv/bin/python -m benchmarks.commit_time --snapshots 1,30 --window 10
	@.venv/bin/python -m benchmarks.validate_time --files 20 --rounds 1
	@.venv/bin/python -m benchmarks.due_at_once --tables 20 --rounds 1
	@.venv/bin/python -m benchmarks.due_at_once --tables 20 --rounds 1 --commit-s 0.32 0.32
	@.venv/bin/python -m benchmarks.recovery_time --kills 1 --intervals 1
	@.venv/bin/python -m benchmarks.maintained_table --commits 40 --days 1 --round-after 10
else
bench: setup  ## floe beside the Iceberg Kafka Connect sink, several hours; QUICK=1: ten minutes; SHORT=1: the others, once
	@.venv/bin/python -m benchmarks.compare $(if $(QUICK),--quick)
	@$(if $(QUICK),,.venv/bin/python -m benchmarks.hot_path && .venv/bin/python -m benchmarks.commit_time)
endif

PYTHONS ?= python3.10 python3.11 python3.12 python3.13
JAVAS ?= $(JAVA_HOME)
versions: setup  ## unit tests and the flights on other versions: PYTHONS="python3.10 ..." JAVAS="/a/java/home ..."; an hour
	@.venv/bin/python -m tests.versions --unit --python $(PYTHONS) --java "$(firstword $(JAVAS))"
	@.venv/bin/python -m tests.versions --python $(PYTHONS) --java $(or $(JAVAS),"")

VERSION ?=
pyiceberg: setup  ## the Iceberg tests with another version of PyIceberg: VERSION=0.12.1, or a folder with its sources
	@.venv/bin/python -m tests.pyiceberg_version "$(or $(VERSION),$(error say which: make pyiceberg VERSION=0.12.1))"

lint: setup  ## ruff, mypy and the import contracts
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

format: setup  ## rewrite the code in the one style
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

build/tools: .ci/tools.lock
	@python3 -m venv --clear $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $<
	@touch $@

wheel: build/tools  ## build/dist: the source archive, and from it a wheel that needs no compiler where it is installed
	@rm -rf build/dist build/lib build/temp.*
	@FLOE_REQUIRE_COMPILED=1 build/tools/bin/python -m build --no-isolation --outdir build/dist . >build/wheel.log 2>&1 || { tail -n 40 build/wheel.log >&2; exit 1; }
	@ls build/dist/*

release:  ## build/dist: the source archive, and wheels for Linux on x86-64 and on arm64, whatever machine this is
	@.ci/release

sbom: setup build/tools  ## list every installed package with version and licence: build/sbom.json (CycloneDX)
	@build/tools/bin/cyclonedx-py environment --output-reproducible --output-file build/sbom.json .venv/bin/python
	@echo "build/sbom.json"

audit: build/tools  ## compare the lock with the published advisories
	@sh .ci/audit

clean:  ## stop the embedded stack and delete its data
	@.venv/bin/floe local down --wipe
