# The console in a real browser: docs/guide/console.md. Needs Node.js, and 700 MB where there is no Chromium yet.
BROWSER := target/browser
.PHONY: browser chromium

browser: chromium build $(VENV)/installed $(BROWSER)/installed ## Every page of the console in Chromium, in two minutes after one of installing, needs Node.js: [PICTURES=docs/guide/console]
	BROWSER=$(BROWSER) PICTURES=$(PICTURES) $(PY) -m pytest tests/browser --tb=short

# Asked before minutes of compiling.
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	       && apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; } \
	  || { echo 'make browser needs Chromium: apt-get install --no-install-recommends chromium'; exit 2; }

# What the pages are judged by comes from npm, what drives the browser into the environment of the local stack.
$(BROWSER)/installed: tests/browser/package.json tests/browser/package-lock.json tests/browser/requirements.txt $(VENV)/installed
	@command -v npm > /dev/null || { echo 'make browser needs Node.js 20 or newer, with npm'; exit 2; }
	mkdir -p $(@D)
	cp tests/browser/package.json tests/browser/package-lock.json $(@D)
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix $(@D)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tests/browser/requirements.txt
	@touch $@
