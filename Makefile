# Bough: see README.md. `make help` lists the targets.

GO       ?= go
BIN      := bin/bough
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  := -X main.version=$(VERSION)
GOLANGCI := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
REDOCLY  := @redocly/cli@1.34.20
VULNDB   ?= https://vuln.go.dev

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build postgres ## build and start the server with its own PostgreSQL
	./$(BIN) serve $(ARGS)

.PHONY: build
build: ## build bin/bough
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/bough

.PHONY: postgres
postgres: build ## see to it that there is a PostgreSQL to run
	@./$(BIN) postgres install

# The race detector needs a C compiler.
RACE := $(shell command -v gcc clang >/dev/null 2>&1 && echo -race)

# go test, in any order, and a list of the skipped tests at the end.
TEST := $(GO) run ./cmd/runtests -shuffle=on -timeout 25m

.PHONY: test
test: postgres ## run all tests, with the race detector where there is a C compiler
	$(TEST) $(RACE) ./...

# What depends on the PostgreSQL it meets: the engine, and over HTTP what it does with tables, branches and policies.
OLDEST := $(firstword $(sort $(wildcard /usr/lib/postgresql/*/bin)))
ENGINE := ./server/pgcopy/... ./server/fidelity ./server/postgres ./server/introspect ./server/compile ./server/rows ./server/oauth ./server/readsql ./server/mcp/... ./server/events ./server/users
ON_OLDEST := BOUGH_TEST_POSTGRES_BIN=$(OLDEST) $(TEST) -short

.PHONY: test-oldest
test-oldest: test-engine ## test what depends on it on the oldest PostgreSQL that is installed besides, or on OLDEST=directory
	$(if $(OLDEST),$(ON_OLDEST) -run 'Branch|Table|Record|Filter|Rpc|RPC|Polic|Schema|MCPTools|MCPReadOnly' ./server/httpapi ./server)

.PHONY: test-engine
test-engine: ## the part of test-oldest that makes no requests
	$(if $(OLDEST),$(ON_OLDEST) $(ENGINE),@echo "no other PostgreSQL is installed")

# The short form is part of test and test-oldest.
.PHONY: test-fidelity
test-fidelity: postgres ## compare copies of large and of real schemas with their sources, on all PostgreSQL that are there
	BOUGH_FIDELITY=long $(GO) test -count=1 -timeout 60m ./server/fidelity ./server/pgcopy/inventory
	$(if $(OLDEST),BOUGH_FIDELITY=long BOUGH_TEST_POSTGRES_BIN=$(OLDEST) $(GO) test -count=1 -timeout 60m ./server/fidelity ./server/pgcopy/inventory)

.PHONY: lint
lint: generated vet lint-spec vulncheck ## check code, contract, generated files and modules
	$(GOLANGCI) run ./...

.PHONY: vet
vet:
	@test -z "$$(gofmt -l cmd server schema)" || { echo "gofmt -w these:"; gofmt -l cmd server schema; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff

# Of v1.9.0 a dependency cannot be had.
GOVULNCHECK := $(shell command -v timeout >/dev/null 2>&1 && echo timeout 300) $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0

.PHONY: vulncheck
vulncheck: ## check the modules in use for known vulnerabilities, where the database of them can be reached
	@if ! curl -fsS -m 5 -o /dev/null $(VULNDB)/index/db.json 2>/dev/null; then \
		echo "skipped the check for known vulnerabilities: $(VULNDB) cannot be reached"; exit 0; fi; \
	$(GOVULNCHECK) -db $(VULNDB) ./...; status=$$?; \
	if [ $$status = 124 ]; then echo "skipped the check for known vulnerabilities: not done within 5 minutes"; exit 0; fi; exit $$status

.PHONY: lint-spec
lint-spec:
	npx --yes $(REDOCLY) lint --config spec/redocly.yaml gen/openapi.yaml

# Operations whose parameters follow the database, whose errors are OAuth's, or of whose bodies the bytes count: they are
# in the contract, and are served by hand.
BYHAND := tables,functions,postgrest,documents,oauth,mcp,repohost-webhook

.PHONY: generate
generate: ## make gen/ from spec/, schema/ and queries/
	$(GO) run ./cmd/bundlespec spec gen/openapi.yaml gen/client/credentials.gen.go
	$(GO) tool oapi-codegen -config oapi-codegen.yaml -generate models,gin-server,strict-server -exclude-tags $(BYHAND) -o gen/api/api.gen.go gen/openapi.yaml
	$(GO) tool oapi-codegen -config oapi-codegen.yaml -generate spec -o gen/api/spec.gen.go gen/openapi.yaml
	$(GO) tool oapi-codegen -config oapi-codegen.yaml -package client -generate client,models -o gen/client/client.gen.go gen/openapi.yaml
	$(GO) tool sqlc generate

.PHONY: generated
generated: ## fail when gen/ is not what make generate makes
	@before=$$(find gen -type f | LC_ALL=C sort | xargs cat | cksum); $(MAKE) -s generate; \
	after=$$(find gen -type f | LC_ALL=C sort | xargs cat | cksum); \
	test "$$before" = "$$after" || { echo "gen/ was out of date; make generate has renewed it: commit it"; exit 1; }

.PHONY: bench
bench: bench-branch bench-tables bench-oauth bench-mcp ## run all benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./server/...

.PHONY: bench-branch
bench-branch: build postgres ## time to a branch and pause of main, beside pg_dump | psql
	$(GO) run ./cmd/benchbranch $(ARGS)

.PHONY: bench-tables
bench-tables: build postgres ## CPU of a request for records, beside pgbench and a constant answer
	$(GO) run ./cmd/benchtables -bough $(BIN) $(ARGS)

.PHONY: bench-oauth
bench-oauth: build postgres ## tokens issued and checked a second, beside pgbench with the same SQL
	$(GO) run ./cmd/benchoauth -bough $(BIN) $(ARGS)

.PHONY: bench-mcp
bench-mcp: build postgres ## tools called a second, beside the same query over the tables API
	$(GO) run ./cmd/benchmcp -bough $(BIN) $(ARGS)

.PHONY: clean
clean: ## remove what was built; the data in .bough stays
	rm -rf bin
