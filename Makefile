# Everything a contributor runs. `make` prints this list; a comment after ## is its text.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CONTROLLER_GEN_VERSION := v0.23.0
GOLANGCI_VERSION       := v2.15.0
GOTESTSUM_VERSION      := v1.13.0
# As in go.mod: ginkgo wants its command and its package of one version.
GINKGO_VERSION         := $(shell sed -n 's|^\tgithub.com/onsi/ginkgo/v2 ||p' go.mod)

BIN := $(CURDIR)/bin
CONTROLLER_GEN := $(BIN)/controller-gen-$(CONTROLLER_GEN_VERSION)
GOLANGCI := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
GOTESTSUM := $(BIN)/gotestsum-$(GOTESTSUM_VERSION)
GINKGO := $(BIN)/ginkgo-$(GINKGO_VERSION)
# One line a package, and at the end what failed and what was skipped, counted and with its reason. go vet is lint's.
GOTEST := $(GOTESTSUM) --format pkgname -- -vet=off
# On real clusters a test that failed is tried once more, alone, unless more than three did. It is shown among the failed all
# the same, and named at the end: what passes the second time only is a fault to be mended, in the product or in the test.
LABTEST := $(GOTESTSUM) --format pkgname --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test
# The suite of releases mostly waits: its specs share a fleet and run in three processes. A dot for each that passed, all of
# one that failed, and the reason of one that was skipped; out/integration.json has the times.
INTEGRATION := $(GINKGO) run --tags lab --vet off --procs 3 --flake-attempts 2 --timeout 35m --no-color --output-dir $(CURDIR)/out --json-report integration.json
# Suites that mostly wait, so that two of them fit on two processors (three starve each other); the longest first. The others
# need both to themselves.
SUITES_AT_ONCE := ./test/hub ./test/lab/... ./test/plugin ./test/member ./test/propagation ./test/rbac ./test/crd
# The programs that the suites run, built once.
PRODUCT := $(CURDIR)/out/product
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/underway-dev/underway/cmd/internal/boot.version=$(VERSION)

PODS ?= 24
SEEDS ?= 100000
KEEP ?=

##@ Use
.PHONY: help
help: ## This list.
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*##/ {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## One release through three real clusters, in place. PODS=600 for a big one, KEEP=1 leaves the fleet up.
	@PODS=$(PODS) KEEP=$(KEEP) go run ./test/demo

.PHONY: lab-up
lab-up: ## A hub and three members, empty, until lab-down.
	@go run ./test/lab/cmd/lab up

.PHONY: lab-down
lab-down: ## End what `make lab-up` or `make demo KEEP=1` left running.
	@go run ./test/lab/cmd/lab down

.PHONY: build
build: ## The hub, the member agent and the kubectl plugin, into bin/.
	@mkdir -p $(BIN)
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

##@ Test
.PHONY: test
test: test-unit test-lab ## Everything CI runs.

.PHONY: test-unit
test-unit: $(GOTESTSUM) ## Tests without a cluster, under 3 minutes.
	$(GOTEST) -timeout 10m ./...

.PHONY: test-lab
test-lab: $(GOTESTSUM) $(GINKGO) ## Tests on real control planes and real kubelets, one fleet per suite.
	go run ./test/lab/cmd/lab build
	@mkdir -p out; go build -ldflags='-s -w' -o $(PRODUCT)/ ./cmd/...; export UNDERWAY_PRODUCT=$(PRODUCT); rc=0; \
	rm -f out/flaky-*.txt; \
	$(INTEGRATION) ./test/integration || rc=1; \
	$(LABTEST) --rerun-fails-report=out/flaky-1.txt --packages="$(SUITES_AT_ONCE)" -- -vet=off -tags lab -count 1 -p 2 -timeout 40m || rc=1; \
	$(LABTEST) --rerun-fails-report=out/flaky-2.txt --packages="$$(go list -tags lab ./test/... | grep -vxF "$$(go list -tags lab ./test/integration $(SUITES_AT_ONCE))" | paste -sd' ')" -- -vet=off -tags lab -count 1 -p 1 -timeout 40m || rc=1; \
	if [ -s out/flaky-1.txt ] || [ -s out/flaky-2.txt ]; then echo '=== FLAKY: tried twice, to be mended'; cat out/flaky-*.txt; fi; \
	exit $$rc

.PHONY: test-node
test-node: $(GOTESTSUM) ## The part of test-lab on real kubelets, containerd and runc; needs root (docs/lab.md).
	go run ./test/lab/cmd/lab build
	$(GOTESTSUM) --format testname -- -tags lab -count 1 -timeout 20m ./test/node

.PHONY: measure
measure: ## Recreate against in place on a real node, 20 pods each, as a table (docs/in-place-measured.md).
	MEASURE=1 go test -tags lab -count 1 -timeout 20m -v -run TestMeasure ./test/node

.PHONY: test-long
test-long: ## All four parts of the long tier one after the other, whichever fails; hours (docs/figures.md).
	go run ./test/lab/cmd/lab build
	@$(MAKE) --no-print-directory -k -j1 test-long-seeds test-long-fleets test-long-hub test-long-demo

.PHONY: test-long-seeds test-long-fleets test-long-hub test-long-demo
test-long-seeds: ## SEEDS=100000 random stories of each planner, with the rest of the time said; the result is in out/seeds.md.
	go run ./test/long/cmd/seeds -seeds $(SEEDS)
test-long-fleets: ## 2,000 pods while the agent is killed; 1,000 members nearly all dead; one change over 20 members.
	LONG=1 go test -tags lab -count 1 -timeout 90m -v -run 'TestTwoThousandPods|TestAThousandMembersNearlyAllDead|TestTwentyMembers' ./test/long
test-long-hub: ## 20 restarts of the hub, a leader that sleeps, two copies of one hub.
	LONG=1 go test -tags lab -count 1 -timeout 60m -v -run TestLong ./test/hub
test-long-demo: ## 2,000 pods over 20 members, proven pod by pod.
	MEMBERS=20 PODS=2000 REQUESTS=1 go run ./test/demo

##@ Change
.PHONY: generate
generate: $(CONTROLLER_GEN) ## Deep copies, CRDs and roles from the code.
	$(CONTROLLER_GEN) object paths=./apis/...
	go run ./config/gen -controller-gen $(CONTROLLER_GEN)

.PHONY: verify
verify: generate ## Generated files and go.mod are what the code says; nothing else is changed by it.
	printf '%s\n' . test/lab/binaries test/lab/binaries/{kwok,containerd,runc,cni} | xargs -P 6 -I{} go mod tidy -C {}
	@if [ -n "$$(git status --porcelain -- apis config go.mod go.sum test/lab/binaries)" ]; then \
	  git status --porcelain -- apis config go.mod go.sum test/lab/binaries; git --no-pager diff --stat -- apis config go.mod go.sum test/lab/binaries; \
	  echo 'verify: run `make generate` and `go mod tidy`, and commit what they change'; exit 1; fi

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint, go vet among it.
	$(GOLANGCI) run --build-tags lab ./...

.PHONY: sizes
sizes: $(GOLANGCI) ## What has grown large or complex: alarms, not limits.
	$(GOLANGCI) run -c .golangci-sizes.yml --build-tags lab --issues-exit-code 0 ./...

.PHONY: fmt
fmt: $(GOLANGCI) ## Format as lint wants it.
	$(GOLANGCI) fmt ./...

.PHONY: clean
clean: ## Remove bin/ and out/; the cache of built control planes stays.
	rm -rf $(BIN) out

$(CONTROLLER_GEN):
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION)
	mv $(BIN)/controller-gen $@

$(GOLANGCI):
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(BIN)/golangci-lint $@

$(GOTESTSUM):
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)
	mv $(BIN)/gotestsum $@

$(GINKGO):
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go install github.com/onsi/ginkgo/v2/ginkgo@$(GINKGO_VERSION)
	mv $(BIN)/ginkgo $@
