# Everything that one does here. Needs Rust, Python 3.11 or newer, and make; the rest is installed into local/.venv.

PYTHON ?= python3
VENV := local/.venv
PY := $(VENV)/bin/python
# Which function the faults are tried on. CI takes BUILD=package: what Lambda runs, byte for byte, but for x86_64, since that
# of arm64 runs on no machine of CI.
BUILD ?= debug
PACKAGE := $(if $(filter package,$(BUILD)),artifacts)

.DEFAULT_GOAL := help
.PHONY: help demo local invoke ready which test compiled unit faults stack drill figures bench wake replay soak sabotage lint format artifacts package build

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ready ## The main job on a local stack, in about two minutes: no AWS account, no Docker
	@$(PY) -m local.demo

local: ready ## A deployment to play with, alarms included, until Ctrl-C
	@$(PY) -m local.run

invoke: which ready ## Run the function on one event: EVENT=events/envelope.json [MODE=observe]
	@$(PY) -m local.invoke $(EVENT) --mode $(or $(MODE),active)

# Side by side: one compiles, the other mostly downloads.
ready:
	@$(MAKE) --jobs=2 build $(VENV)/installed

# Asked before minutes of compiling.
which:
	@test -f "$(EVENT)" || { echo 'Which event? make invoke EVENT=events/envelope.json [MODE=observe]'; exit 2; }

# Side by side, since the faults and the stack mostly wait. What each of them says comes when it is done, where make can do that.
# Compiled before, since tests that wait for a time to be over suffer beside a compiler.
test: ## The Rust tests, the faults and the stack
	@$(MAKE) --jobs=2 $(VENV)/installed compiled
	@echo 'The Rust tests, the faults and the stack, side by side: each says how it went when it is done'
	@$(MAKE) --jobs=3 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) unit faults stack

compiled: $(PACKAGE)
	cargo test --workspace --no-run

# Two tests for each core: many of them wait for a time to be over.
unit: THREADS = $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
unit: build ## The Rust tests, the calls that letters take, and the memory of a page
	cargo test --workspace -- --test-threads $(THREADS)
	target/debug/bench --function target/debug/sns-redrive --alone cost
	target/debug/examples/page

# The seed fixes letters and faults, though not which call meets which.
faults: build $(PACKAGE) ## Every call of the function times every fault, a small soak, and memory, in three minutes: [BUILD=package]
	$(if $(PACKAGE),$(PACKAGED))
	target/debug/soak --function target/$(BUILD)/sns-redrive --letters 2000 --seed 1 --at-once 32
	target/debug/bench --function target/$(BUILD)/sns-redrive --alone limit

# The operator's tool is not in the package.
define PACKAGED
	mkdir -p target/package
	cp target/lambda/sns-redrive/bootstrap target/package/sns-redrive
	cp target/lambda/sns-redrive-replay/bootstrap target/package/sns-redrive-replay
	cp target/debug/redrivectl target/package/redrivectl
endef

# Workers with a local stack each: the tests mostly wait. A worker takes one test after the other, the long ones first.
WORKERS ?= 6
stack: build $(VENV)/installed ## The whole function, deployed by template.yaml to the local stack: [WORKERS=6]
	$(PY) -m pytest tests/stack --tb=short --numprocesses $(WORKERS) --maxschedchunk 1

# With a Python and an environment of its own: LocalStack needs 3.13, and 500 MB.
drill: build $(VENV)/installed local/.localstack/installed ## `redrivectl drill` where subscriptions really have dead letters, in three minutes after a minute of installing: [LOCALSTACK_PYTHON=python3.13]
	@$(PY) -m local.localstack

# A test writes the page and checks parts of it, so nothing is compiled twice.
figures: ## Write the tables of docs/figures.md again from the model, in about four minutes
	FIGURES=write cargo test -p redrive-testing --test simulation -- --exact the_page_of_figures_shows_what_the_model_gives

# Examples and not cargo's benches: those ignore the profile's panic, so the SDK would be compiled once more.
bench: ## Calls, speed, memory and start of the release binary, after some minutes of building: [PAGE=docs/figures.md]
	cargo build --release --bin sns-redrive
	@$(PYTHON) -m local.size target/release/sns-redrive
	cargo build --release -p proof --bin bench --example bare --example pipeline
	target/release/examples/pipeline --bench > target/release/pipeline.txt
	@cat target/release/pipeline.txt
	target/release/bench --pipeline target/release/pipeline.txt $(if $(PAGE),--write $(PAGE))

# Most of it is the tool's own rate. The build for tests will do: the aim is far off.
wake: build ## How long 100,000 waiting letters take to wake, in five minutes: [PAGE=docs/figures.md]
	target/debug/bench --redrivectl target/debug/redrivectl --alone $(if $(PAGE),--write $(PAGE)) wake

replay: ## How fast the workers of a replay read and send letters, in two minutes after some of building: [PAGE=docs/figures.md]
	cargo build --release --package sns-redrive --bin sns-redrive-replay
	cargo build --release -p proof --example replay
	target/release/examples/replay --function target/release/sns-redrive-replay $(if $(PAGE),--write $(PAGE))

LETTERS ?= 100000
WORLDS ?= 20000
PROFILE ?= release
soak: ## The same with the release binary and many letters, and many simulated worlds, in an hour: [LETTERS=100000] [SEED=7] [WORLDS=20000] [PROFILE=dev] [PAGE=docs/figures.md]
	cargo build --profile $(PROFILE) --bins
	cargo build --profile $(PROFILE) --package redrivectl
	cargo run --quiet --release -p proof --bin soak -- --function target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/sns-redrive \
	    --letters $(LETTERS) $(if $(SEED),--seed $(SEED)) $(if $(PAGE),--write $(PAGE))
	env -u SEED WORLDS=$(WORLDS) cargo test --workspace --test simulation -- random_worlds_obey_the_laws

# In a copy of the source, with what is compiled kept for the next time.
sabotage: $(VENV)/installed ## Break the software in known ways, which a proof must notice: [ONLY=name]
	@$(PYTHON) .ci/sabotage.py $(ONLY)

# fuzz/ is a workspace of its own, with a lock file that must follow the function's dependencies.
# sam's linting writes its settings into the home directory and would report what it was used for.
lint: export SAM_CLI_TELEMETRY = 0
lint: $(VENV)/installed ## Formatting, clippy, the linters of the templates, the workflows and the Python code, the pages
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	cargo clippy --workspace --all-targets -- -D warnings
	$(VENV)/bin/cfn-lint template.yaml operations.yaml queues.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template operations.yaml
	$(VENV)/bin/sam validate --lint --region eu-central-1 --template queues.yaml
	$(VENV)/bin/ruff check --config local/ruff.toml local tests .ci
	$(VENV)/bin/ruff format --config local/ruff.toml --check local tests .ci
	$(PYTHON) .ci/pages.py

format: $(VENV)/installed ## Format the Rust and the Python code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(VENV)/bin/ruff format --config local/ruff.toml local tests .ci

# What is deployed: ARCH=arm64 or x86_64. cargo-lambda compiles, with zig as its linker; SAM runs the same command again,
# which finds everything compiled, and packs the result.
ARCH ?= $(if $(PACKAGE),x86_64,arm64)
artifacts package: export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
package: export SAM_CLI_TELEMETRY = 0
artifacts: $(VENV)/installed
	cargo lambda build --release --$(subst _,-,$(ARCH)) --bin sns-redrive --bin sns-redrive-replay

package: artifacts ## The package for AWS, by cargo-lambda and by SAM: [ARCH=x86_64]
	cargo lambda build --release --$(subst _,-,$(ARCH)) --package redrive-console --bin sns-redrive-widget
	sam build --parameter-overrides Architecture=$(ARCH)
	cmp target/lambda/sns-redrive/bootstrap .aws-sam/build/RedriveFunction/bootstrap
	@$(PY) -m local.size .aws-sam/build/RedriveFunction/bootstrap
	sam build --parameter-overrides Architecture=$(ARCH) --template operations.yaml --build-dir .aws-sam/operations
	cmp target/lambda/sns-redrive-replay/bootstrap .aws-sam/operations/ReplayFunction/bootstrap
	cmp target/lambda/sns-redrive-widget/bootstrap .aws-sam/operations/ConsoleFunction/bootstrap
	@$(PY) -m local.size .aws-sam/operations/ReplayFunction/bootstrap .aws-sam/operations/ConsoleFunction/bootstrap

# The whole workspace, and with an example, so that all crates have the features that `cargo test --workspace` gives them:
# otherwise the tests would compile some of them once more.
build:
	cargo build --workspace --bins --example page

# --no-deps: requirements.txt names everything, and pip would look for the extras of what it names (boto3[crt]) again.
$(VENV)/installed: local/requirements.txt
	@test ! -L $(VENV) || { echo '$(VENV) is a link: venv would empty what it points to. Run make there, or remove the link'; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement local/requirements.txt
	@touch $@

LOCALSTACK_PYTHON ?= python3.13
# It names no upper versions, and does not start with newer ones of the others.
LOCALSTACK := 'localstack-core[runtime]==4.14.0' 'cbor2<6' 'cryptography<47' 'pyopenssl<26' 'service_identity<25'
local/.localstack/installed:
	$(LOCALSTACK_PYTHON) -m venv --clear local/.localstack
	local/.localstack/bin/python -m pip install --quiet --disable-pip-version-check $(LOCALSTACK)
	@touch $@

include .ci/tools.mk
include .ci/browser.mk
include .ci/release.mk
