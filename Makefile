# The commands of this project. They need Rust, Python 3.11 or newer, and make, and install the rest into local/.venv; the demo
# has its own part of that in local/.demo.

PYTHON ?= python3
VENV := local/.venv
PY := $(VENV)/bin/python
DEMO := local/.demo
# The build of the function that `make faults` tests. CI sets BUILD=package: then the tests run the bytes that Lambda runs.
# CI tests the package for x86_64, because none of its machines can run the one for arm64.
BUILD ?= debug
PACKAGE := $(if $(filter package,$(BUILD)),artifacts)

.DEFAULT_GOAL := help
.PHONY: help demo functions local invoke ready which test compiled unit faults stack incidents drill figures bench wake replay soak sabotage lint format artifacts package build

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Tell the main job as a story on a local stack, in three minutes: no AWS account, no Docker. [FIFO=1]: FIFO queues, in half a minute
	@$(MAKE) --jobs=2 functions $(DEMO)/installed
	@BUILT=demo $(DEMO)/bin/python -m local.demo$(if $(FIFO),_fifo)

# The demo shows the two functions and not the tool, which would take longer to compile than both.
functions:
	cargo build --profile demo --bin sns-redrive --bin sns-redrive-replay

local: ready ## Run a local deployment with alarms to play with, until Ctrl-C: [FIFO=1]
	@$(PY) -m local.run $(if $(FIFO),--fifo)

invoke: which ready ## Run the function on one event: EVENT=events/envelope.json [MODE=observe]
	@$(PY) -m local.invoke $(EVENT) --mode $(or $(MODE),active)

# Both run at once: one compiles, the other mostly downloads.
ready:
	@$(MAKE) --jobs=2 build $(VENV)/installed

# Checks the argument first: otherwise a typing error would show only after minutes of compiling.
which:
	@test -f "$(EVENT)" || { echo 'Which event? make invoke EVENT=events/envelope.json [MODE=observe]'; exit 2; }

# The three run at once, because the tests of faults and stack mostly wait. Each one's output appears when it ends, if this
# make supports that. Everything is compiled before: tests that wait for a time could fail beside a busy compiler.
test: ## Run the Rust tests, the faults and the stack at once
	@$(MAKE) --jobs=2 $(VENV)/installed compiled
	@echo 'Running the Rust tests, the faults and the stack at once. The output of each appears when it ends'
	@$(MAKE) --jobs=3 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) unit faults stack

# --tests: otherwise cargo also links every example.
compiled: $(PACKAGE)
	cargo test --workspace --tests --no-run

# Two tests for each core, because many of them wait for a time.
unit: THREADS = $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
unit: build ## Run the Rust tests, count the calls for letters, measure the memory of a page
	cargo test --workspace --tests -- --test-threads $(THREADS)
	cargo test --workspace --doc --quiet
	target/debug/bench --function target/debug/sns-redrive --alone cost
	target/debug/examples/page

# The seed fixes the letters and the faults. Which call gets which fault still varies.
faults: build $(PACKAGE) ## Try every fault at every call of the function, a small soak, and memory, in three minutes: [BUILD=package]
	$(if $(PACKAGE),$(PACKAGED))
	target/debug/soak --function target/$(BUILD)/sns-redrive --letters 2000 --seed 1 --at-once 32
	target/debug/bench --function target/$(BUILD)/sns-redrive --alone limit

# The package lacks the operator's tool, so the tests take it from the debug build.
define PACKAGED
	mkdir -p target/package
	cp target/lambda/sns-redrive/bootstrap target/package/sns-redrive
	cp target/lambda/sns-redrive-replay/bootstrap target/package/sns-redrive-replay
	cp target/debug/redrivectl target/package/redrivectl
endef

# Each worker has its own local stack. There are more workers than cores, because the tests mostly wait. A worker takes one
# test at a time, and the long tests come first.
WORKERS ?= 6
stack: build $(VENV)/installed ## Test the whole deployment: template.yaml on the local stack: [WORKERS=6]
	$(PY) -m pytest tests/stack --tb=short --numprocesses $(WORKERS) --maxschedchunk 1

incidents: build $(VENV)/installed ## Cause ten incidents on the local stack, and see that console and status say what is wrong
	$(PY) -m pytest tests/stack/test_incidents.py --tb=short --numprocesses $(WORKERS)

# LocalStack needs Python 3.13 and 500 MB, so it gets an environment of its own.
drill: build $(VENV)/installed local/.localstack/installed ## Run `redrivectl drill` on LocalStack, where SNS gives up by itself, in three minutes: [LOCALSTACK_PYTHON=python3.13]
	@$(PY) -m local.localstack

# A test writes the page. So it needs no program of its own. The longest outages have millions of letters, and need 10 GB.
figures: ## Write the outages in docs/figures.md anew, from the model, in a quarter of an hour
	FIGURES=write cargo test --release -p redrive-model --test simulation -- --exact the_page_of_figures_shows_what_the_model_gives

# The measurements are examples, not cargo's benches: benches ignore the profile's `panic`, so cargo would compile the SDK once
# more for them.
bench: ## Measure calls, speed, memory and start of the release binary: [PAGE=docs/figures.md]
	cargo build --release --bin sns-redrive
	@$(PYTHON) -m local.size target/release/sns-redrive
	cargo build --release -p redrive-proof --bin bench --example bare --example pipeline
	target/release/examples/pipeline --bench > target/release/pipeline.txt
	@cat target/release/pipeline.txt
	target/release/bench --pipeline target/release/pipeline.txt $(if $(PAGE),--write $(PAGE))

# The tool's own rate decides the result, so the debug build is fast enough.
wake: build ## Measure how long 100,000 waiting letters take to wake, in five minutes: [PAGE=docs/figures.md]
	target/debug/bench --redrivectl target/debug/redrivectl --alone $(if $(PAGE),--write $(PAGE)) wake

replay: ## Measure how fast a replay's workers read and send letters, in two minutes: [PAGE=docs/figures.md]
	cargo build --release --package sns-redrive --bin sns-redrive-replay
	cargo build --release -p redrive-proof --example replay
	target/release/examples/replay --function target/release/sns-redrive-replay $(if $(PAGE),--write $(PAGE))

LETTERS ?= 100000
WORLDS ?= 20000
PROFILE ?= release
soak: ## Search for lost letters: many letters through the release binary, many simulated worlds, in an hour: [LETTERS=100000] [SEED=7] [WORLDS=20000] [PROFILE=dev] [PAGE=docs/figures.md]
	cargo build --profile $(PROFILE) --bin sns-redrive --bin sns-redrive-replay
	cargo build --profile $(PROFILE) --package redrive-ctl
	cargo run --quiet --release -p redrive-proof --bin soak -- --function target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/sns-redrive \
	    --letters $(LETTERS) $(if $(SEED),--seed $(SEED)) $(if $(PAGE),--write $(PAGE))
	env -u SEED WORLDS=$(WORLDS) cargo test --workspace --test simulation -- random_worlds_obey_the_laws
	TIMES=7 cargo test --workspace --test simulation -- recoveries

# Works in a copy of the source. The compiled files stay for the next run.
sabotage: $(VENV)/installed ## Break the software in known ways, and check that a test notices each: [ONLY=name]
	@$(PYTHON) .ci/sabotage.py $(ONLY)

# fuzz/ is a separate workspace. Its lock file must follow the function's dependencies, which `cargo metadata --locked` checks.
# Without the variable, `sam validate` would report its use to AWS.
# Only CI sets WARNINGS=deny: a newer compiler has more lints, and a fresh clone must pass with them.
lint: export SAM_CLI_TELEMETRY = 0
lint: $(VENV)/installed ## Check formatting, clippy, templates, workflows, Python code and pages: [WARNINGS=deny]
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	cargo clippy --workspace --all-targets $(if $(filter deny,$(WARNINGS)),-- -D warnings)
	$(VENV)/bin/cfn-lint template.yaml operations.yaml queues.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template operations.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template queues.yaml
	$(VENV)/bin/ruff check --config local/ruff.toml local tests .ci
	$(VENV)/bin/ruff format --config local/ruff.toml --check local tests .ci
	$(PYTHON) .ci/circles.py
	$(PYTHON) .ci/pages.py

format: $(VENV)/installed ## Format the Rust and the Python code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(VENV)/bin/ruff format --config local/ruff.toml local tests .ci

# The package that is deployed, for ARCH=arm64 or x86_64. cargo-lambda compiles it, with zig as the linker. Then SAM runs the
# same command, which finds everything compiled, and packs the result.
ARCH ?= $(if $(PACKAGE),x86_64,arm64)
artifacts package: export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
package: export SAM_CLI_TELEMETRY = 0
artifacts: $(VENV)/installed
	cargo lambda build --release --$(subst _,-,$(ARCH)) --bin sns-redrive --bin sns-redrive-replay

package: artifacts ## Build the package for AWS, with cargo-lambda and with SAM: [ARCH=x86_64]
	cargo lambda build --release --$(subst _,-,$(ARCH)) --package redrive-console --bin sns-redrive-widget
	sam build --parameter-overrides Architecture=$(ARCH)
	cmp target/lambda/sns-redrive/bootstrap .aws-sam/build/RedriveFunction/bootstrap
	@$(PY) -m local.size .aws-sam/build/RedriveFunction/bootstrap
	sam build --parameter-overrides Architecture=$(ARCH) --template operations.yaml --build-dir .aws-sam/operations
	cmp target/lambda/sns-redrive-replay/bootstrap .aws-sam/operations/ReplayFunction/bootstrap
	cmp target/lambda/sns-redrive-widget/bootstrap .aws-sam/operations/ConsoleFunction/bootstrap
	@$(PY) -m local.size .aws-sam/operations/ReplayFunction/bootstrap .aws-sam/operations/ConsoleFunction/bootstrap

# Builds the whole workspace, and an example. Then all crates have the features and the profile that `cargo test --workspace`
# gives them. With others the tests would compile the SDK once more.
build:
	cargo build --workspace --profile test --bins --example page

$(VENV)/installed: local/requirements.txt
	$(call installed,$<)

# The versions and hashes of demo.txt stand in requirements.txt.
$(DEMO)/installed: local/requirements.txt local/demo.txt
	@mkdir -p target
	@awk 'NR == FNR { wanted[$$1]; next } /^[a-z]/ { split($$1, name, "=="); is_wanted = name[1] in wanted } is_wanted' \
	    local/demo.txt $< > target/demo.txt
	$(call installed,target/demo.txt)

# --no-deps: the file names every package. Without the option pip would also look for extras, such as boto3[crt].
define installed
	@test ! -L $(@D) || { echo '$(@D) is a link: venv would empty what it points to. Run make there, or remove the link'; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $(1)
	@touch $@
endef

LOCALSTACK_PYTHON ?= python3.13
# LocalStack sets no upper bounds on its dependencies, and does not start with newer versions of these four.
LOCALSTACK := 'localstack-core[runtime]==4.14.0' 'cbor2<6' 'cryptography<47' 'pyopenssl<26' 'service_identity<25'
local/.localstack/installed:
	$(LOCALSTACK_PYTHON) -m venv --clear local/.localstack
	local/.localstack/bin/python -m pip install --quiet --disable-pip-version-check $(LOCALSTACK)
	@touch $@

include .ci/tools.mk
include .ci/browser.mk
include .ci/release.mk
