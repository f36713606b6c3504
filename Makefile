# `make help` lists the targets. Everything that is needed and not in the tree
# is installed by scripts/, outside the tree.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

# Two statements: a failure within an export would go unnoticed.
TESTENV := SPANFLAME_TEST_PYTHON=$$(scripts/testenv); export SPANFLAME_TEST_PYTHON;
# Without a Collector its tests are skipped, but not with CI set.
COLLECTOR := SPANFLAME_COLLECTOR=$$(scripts/collector) || [ -z "$${CI:-}" ]; export SPANFLAME_COLLECTOR;
STATICCHECK := go tool -modfile=tools/go.mod staticcheck
FUZZTIME ?= 10s
SHELL_SCRIPTS := $(shell grep -lE '^\#!.*bash' .ci/* demo/* scripts/* 2>/dev/null)

.PHONY: help
help: ## this list
	@sed -nE '$(if $(wildcard scripts/bench),,/^bench:/d;)s/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | column -t -s '|'

.PHONY: build
build: ## bin/spanflame, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/spanflame ./cmd/spanflame

.PHONY: check
check: check-go check-python ## format, lint, import directions, another architecture

.PHONY: check-go
check-go:
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "run make format for:" $$bad; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	go test -count 1 ./internal # go list's answer is no input that go test would know of
	GOARCH=arm64 CGO_ENABLED=0 go build ./...
	for script in $(SHELL_SCRIPTS); do bash -n $$script; done

.PHONY: check-python
check-python:
	ruff=$$(dirname "$$(scripts/testenv)")/ruff; \
	$$ruff check --no-cache --quiet .; \
	$$ruff format --no-cache --quiet --check . || { echo "run make format"; exit 1; }

.PHONY: format
format: ## rewrite what check finds badly formatted
	gofmt -w .
	ruff=$$(dirname "$$(scripts/testenv)")/ruff; $$ruff check --no-cache --fix .; $$ruff format --no-cache .

.PHONY: test
test: test-go test-shim test-e2e ## all tests, about in the order of their speed

.PHONY: test-go
test-go: ## Go packages, with the race detector
	packages=$$(go list ./... | grep -v -e /test/ -e /cpython$$); $(TESTENV) $(COLLECTOR) go test -race -timeout 10m $$packages
	# Alone, and as fast as it is: how often a running interpreter can be read
	# depends on both. It has one goroutine.
	$(TESTENV) go test -timeout 10m ./internal/cpython

.PHONY: test-shim
test-shim: ## the Python shim, with pytest
	$(TESTENV) "$$SPANFLAME_TEST_PYTHON" -m pytest -q -p no:cacheprovider test/shim

# One package at a time and nothing beside it: these tests measure CPU time.
.PHONY: test-e2e
test-e2e: ## real programs under the real binary
	$(TESTENV) go test -p 1 -count 1 -timeout 25m ./test/...

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s)
	grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]*' . | \
	while IFS=: read -r file _ func; do \
		go test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname $$file)"; \
	done

.PHONY: demo
demo: build ## a traced shop under spanflame, for DEMO_SECONDS (20)
	demo/run

ifneq ($(wildcard scripts/bench),)
.PHONY: bench
bench: build ## what profiling costs, beside other profilers
	scripts/bench
endif

.PHONY: clean
clean: ## remove what was built in the tree
	rm -rf bin
