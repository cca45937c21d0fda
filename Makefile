# Everything here needs Go and nothing else; the PostgreSQL server that the tests and `make run` use is started for them.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROTOGEN := go -C flyteidl2/protogen run . -root ../..

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Write gen/go/ anew from flyteidl2/
	$(PROTOGEN)

.PHONY: generate-check
generate-check: ## Fail when gen/go/ is not what `make generate` would write
	$(PROTOGEN) -check
