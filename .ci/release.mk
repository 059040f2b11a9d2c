# Builds the files of a release (docs/releasing.md). The function is linked as in `make package`. The operator's tool is linked
# with musl, so that one file runs on any Linux.
ARCHS ?= arm64 x86_64
DIST := target/dist
BUILT := target/built
# The redrivectl for this machine writes the manual pages and completions. They are the same for all processors.
HOST := $(subst aarch64,arm64,$(shell uname -m))
.PHONY: release

release: export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
release: export SAM_CLI_TELEMETRY = 0
release: $(VENV)/installed $(CARGO_CYCLONEDX) ## Build the files of a release, into target/dist: [ARCHS=x86_64] [BUCKET=my-bucket] [PREFIX=sns-redrive]
	@test -z "$$(git status --porcelain)" || { echo 'make release needs a clean work tree: the release names the commit that it is made of'; exit 2; }
	rm -rf $(DIST) $(BUILT) && mkdir -p $(DIST)
	@set -e; for arch in $(ARCHS); do processor=$$(echo $$arch | sed s/arm64/aarch64/); set -x; \
	  cargo lambda build --locked --release --target $$processor-unknown-linux-gnu --lambda-dir $(BUILT)/$$arch \
	      --bin sns-redrive --bin sns-redrive-replay; \
	  cargo lambda build --locked --release --target $$processor-unknown-linux-gnu --lambda-dir $(BUILT)/$$arch \
	      --package redrive-console --bin sns-redrive-widget; \
	  cargo lambda build --locked --release --target $$processor-unknown-linux-musl --lambda-dir $(BUILT)/$$arch \
	      --package redrive-ctl --bin redrivectl; \
	  $(PYTHON) .ci/sbom.py $(CARGO_CYCLONEDX) sns-redrive $(DIST)/sns-redrive-$$arch.cdx.json $$processor-unknown-linux-gnu; \
	  $(PYTHON) .ci/sbom.py $(CARGO_CYCLONEDX) redrive-ctl $(DIST)/redrivectl-$$arch.cdx.json $$processor-unknown-linux-musl; \
	done
	@set -ex; tool=$(BUILT)/$(HOST)/redrivectl/bootstrap; \
	test -x $$tool || { cargo build --locked --package redrive-ctl; tool=target/debug/redrivectl; }; \
	$(PY) -m local.release --built $(BUILT) --tool $$tool --out $(DIST) --bucket '$(BUCKET)' --prefix '$(PREFIX)' $(ARCHS)
	$(VENV)/bin/cfn-lint $(DIST)/template.yaml $(DIST)/operations.yaml $(DIST)/queues.yaml $(DIST)/serverlessrepo.yaml \
	    $(DIST)/plain-template.yaml $(DIST)/plain-operations.yaml $(DIST)/plain-queues.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template $(DIST)/template.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template $(DIST)/operations.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template $(DIST)/serverlessrepo.yaml
	cd $(DIST) && sha256sum --check --quiet SHA256SUMS
