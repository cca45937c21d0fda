# Everything here but the two targets that say so needs Go (with cgo's C compiler for the race detector) and nothing else: the
# PostgreSQL server that `make run` and `make test` use is started for them, unless one is configured or, for the tests, listens
# on port 15432.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROTOGEN    := go -C flyteidl2/protogen run . -root ../..

# Given to the program that `make run`, `make swarm` or `make notifybench` starts, e.g. make run ARGS='--help'
ARGS ?=
# Given to `go test`, e.g. make test PKGS=./runs/... TESTFLAGS='-run Watch -v'
PKGS      ?= ./...
TESTFLAGS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Start the runs service on an embedded PostgreSQL (ARGS='--help' lists its settings)
	@# Not "go run", which dies of the SIGTERM that make hands on and leaves the service behind.
	go build -o bin/runs ./runs/cmd && exec bin/runs $(ARGS)

.PHONY: swarm
swarm: ## Put a load on the running service and report (ARGS='--help' lists its flags)
	go run ./runs/cmd/swarm $(ARGS)

.PHONY: notifybench
notifybench: ## Measure what LISTEN and NOTIFY cost (ARGS='stream --help': also fanout, ceiling)
	@# Not "go run", which dies of the SIGTERM that make hands on and leaves the server's schema behind.
	go build -o bin/notifybench ./runs/cmd/notifybench && exec bin/notifybench $(ARGS)

.PHONY: bench
bench: ## Compare the notify modes, in about four minutes, and write bin/bench.html (ARGS='--help' lists its flags)
	@# Built, as for run: a Ctrl-C has to reach the program, which then stops the servers that it has started.
	go build -o bin/swarm ./runs/cmd/swarm && exec bin/swarm bench --report=bin/bench.html --save=bin/bench.json $(ARGS)

.PHONY: test
test: ## Run all tests with the race detector (PKGS and TESTFLAGS narrow it down)
	go run ./flytestdlib/database/cmd/withpostgres -- go test -race -timeout 15m $(TESTFLAGS) $(PKGS)

.PHONY: browser-check
browser-check: ## Test the status page in a headless Chromium or Chrome, which must be installed
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { echo "install chromium: apt-get install chromium" >&2; exit 1; }
	go run ./flytestdlib/database/cmd/withpostgres -- go test -race -timeout 15m -tags browser -run StatusPage $(TESTFLAGS) ./runs/test

.PHONY: monitoring-check
monitoring-check: ## Test the alert rules and the dashboard with promtool, which must be installed
	@command -v promtool >/dev/null || { echo "install promtool: apt-get install --no-install-recommends prometheus, without its service" >&2; exit 1; }
	go run ./flytestdlib/database/cmd/withpostgres -- go test -tags promtool ./docs/monitoring

.PHONY: lint
lint: ## Check formatting, go.mod, go vet, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change:" $$unformatted >&2; exit 1; }
	go mod tidy -diff
	go vet -tags browser,promtool ./...
	go run $(STATICCHECK) -tags browser,promtool ./...
	go -C flyteidl2/protogen vet ./...

.PHONY: generate
generate: ## Write gen/go/ anew from flyteidl2/
	$(PROTOGEN)

.PHONY: generate-check
generate-check: ## Fail when gen/go/ is not what `make generate` would write
	$(PROTOGEN) -check
