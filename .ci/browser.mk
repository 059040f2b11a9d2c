# Tests the console (docs/guide/console.md) in a real browser. That needs Node.js, and 700 MB if there is no Chromium yet.
BROWSER := target/browser
.PHONY: browser chromium

browser: chromium build $(VENV)/installed $(BROWSER)/installed ## Test every page of the console in Chromium, in two minutes, needs Node.js: [PICTURES=docs/guide/console]
	BROWSER=$(BROWSER) PICTURES=$(PICTURES) $(PY) -m pytest tests/browser --tb=short

# Checks this first: otherwise it would fail only after minutes of compiling.
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	       && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; } \
	  || { echo 'make browser needs Chromium: apt-get install --no-install-recommends chromium'; exit 2; }

# npm installs the judge of the pages. pip installs the browser's driver into the local stack's environment.
$(BROWSER)/installed: tests/browser/package.json tests/browser/package-lock.json tests/browser/requirements.txt $(VENV)/installed
	@command -v npm > /dev/null || { echo 'make browser needs Node.js 20 or newer, with npm'; exit 2; }
	mkdir -p $(@D)
	cp tests/browser/package.json tests/browser/package-lock.json $(@D)
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tests/browser/requirements.txt
	@touch $@
