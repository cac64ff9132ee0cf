# The commands of this repository. `make help` lists them; .ci/run runs `make test`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup pushwake build demo test check darwin schema bench fuzz sanitize torture world fleet fleet-server docs format lint clean

FORMATTED := Package.swift Benchmarks Fuzz Sources Tests Snippets

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need (Debian 12; root or sudo)
	@scripts/setup.sh test

pushwake:
	@scripts/setup.sh build
	@swift build -c release --static-swift-stdlib --product pushwake

build: pushwake ## build the release command .build/release/pushwake, and what it runs for `pushwake world`, `pushwake dashboard` and stores on PostgreSQL
	@swift build -c release --product pushwake-world
	@swift build -c release --product pushwake-postgres
	@swift build -c release --product pushwake-dashboard

demo: pushwake ## kill a client again and again, prove that nothing is lost, and write .build/demo.html about it
	@.build/release/pushwake simulate --worker-memory 24 --worker-time 30 --report .build/demo.html

test: ## build and run every test, each of which must run; ONLY=prefix for a part: Handlers, JIDTests
	@scripts/setup.sh test
	@swift build --build-tests
	@scripts/test.py $(ONLY)
	@$(if $(ONLY),,scripts/kqueue.sh)

check: lint test darwin ## what must hold before a merge: format, no arrow down, no new cycle, no system call past Platform, lengths, nothing dead, words, true pages, examples that compile, no warning, every test passed, types that are right on Apple's systems, worlds that are the same in debug and release
	@scripts/arrows.py --self-test
	@scripts/arrows.py --check
	@scripts/tidy.py --self-test
	@scripts/tidy.py
	@scripts/pages.py --check
	@scripts/examples.py
	@scripts/world-digests.sh

darwin: ## type-check the library for macOS and iOS, and link its system calls into a program for macOS; nothing runs there
	@scripts/darwin.py

schema: ## write handlers.lock anew, after a change of a stored handler that was meant
	@HANDLERS_LOCK=write swift test --disable-xctest --filter HandlersLockTests

bench: ## measure against floors and peers; ONLY=prefix for a part
	@scripts/bench.sh $(ONLY)

fuzz: ## fuzz every entry of foreign bytes; TARGET=name for one, SECONDS=60 for each
	@FUZZ_SECONDS=$(SECONDS) scripts/fuzz.sh $(TARGET)

sanitize: ## run the tests but the kill tests with AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer; ONLY=prefix for a part
	@scripts/sanitize.sh $(ONLY)

torture: ## the long kill tests and long fuzzing
	@scripts/torture.sh

world: ## run simulated worlds, a quarter of the time with OMEMO, with a different seed each time; SECONDS=60, SEED=number
	@scripts/setup.sh build
	@swift build -c release --product pushwake-world
	@swift build -c release --product pushwake-omemo
	@.build/release/pushwake-world --seconds $$(( $(or $(SECONDS),60) * 3 / 4 )) $(if $(SEED),--seed $(SEED))
	@.build/release/pushwake-omemo world --seconds $$(( ($(or $(SECONDS),60) + 3) / 4 )) $(if $(SEED),--seed $(SEED))

fleet: ## machines that share accounts on PostgreSQL die, freeze and are cut off, and primaries are killed, under load; SECONDS=600, MACHINES=4, ACCOUNTS=1000, RATE=167, SEED=number, JSON=file, REPORT=file
	@scripts/setup.sh test
	@swift build -c release --product fleet-proof
	@.build/release/fleet-proof --seconds $(or $(SECONDS),600) --machines $(or $(MACHINES),4) \
	    --accounts $(or $(ACCOUNTS),1000) --rate $(or $(RATE),167) --seed $(or $(SEED),1) \
	    $(if $(JSON),--json $(JSON)) --report $(or $(REPORT),.build/fleet.html)

fleet-server: ## run a primary and a synchronous standby of PostgreSQL to try a store with, until Ctrl-C; PORT=, STANDBY_PORT=, FOLDER=
	@scripts/setup.sh postgres
	@PORT="$(PORT)" STANDBY_PORT="$(STANDBY_PORT)" FOLDER="$(FOLDER)" scripts/fleet-server.sh

docs: ## build the documentation into .build/docs
	@scripts/setup.sh test
	@scripts/docs.sh

lint: ## check the format
	@swift format lint --strict --parallel --recursive $(FORMATTED)

format: ## put the sources into the agreed format
	@swift format --in-place --parallel --recursive $(FORMATTED)

clean: ## remove what was built, not what setup installed
	@swift package clean
	@rm -rf .build/docs .build/docs-work .build/examples .build/bench.json .build/tests
