# A user needs two of these on a fresh machine with Python 3.11, 3.12 or 3.13: `make demo` and `make test`.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
DEMO_OUT ?= demo-output
# What `make reproduce` computes, and of which data; docs/reproduction.md explains these variables.
EXPERIMENTS ?=
DATA ?= data
REPRODUCTION_OUT ?= reproduction-output
OPTIONS ?=
# One process more than there are cores, since tests wait for a tenth of their time; at most 8, since each takes up
# to a gigabyte.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 8 ? n + 1 : 8)))
PYTEST := $(BIN)/python -m pytest
PARALLEL := $(PYTEST) -n $(JOBS) --dist worksteal
ENGINES := browser or javascript or rust or kotlin or pubsub or flink or prism

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Compiled modules are kept, also where the caller's shell says not to: the suites start hundreds of interpreters.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: .venv $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# --- for users

demo: $(DEMO_STAMP) ## simulate devices, run the pipeline, write a report (about a minute)
	@$(BIN)/ldpbeam demo --output $(DEMO_OUT)
	@echo "The demo's report and the files behind it are in $(DEMO_OUT)/"

reproduce: $(DEMO_STAMP) ## the papers' tables and figures (EXPERIMENTS=..., DATA=..., OPTIONS=--quick)
	@$(BIN)/python -m reproduction $(EXPERIMENTS) --data $(DATA) --output $(REPRODUCTION_OUT) $(OPTIONS)

test: $(STAMP) ## all tests but those of minutes and of real engines
	@$(PARALLEL)

# --- for developers

format: $(STAMP) ## format the source and apply the linter's safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## format, style, which room imports which, and generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	@$(MAKE) proto && git diff --exit-code ldpbeam/wire || { echo "error: commit what 'make proto' writes" >&2; exit 1; }

types: $(STAMP) ## mypy
	$(BIN)/mypy

nightly: $(STAMP) java chromium compiler js-build axe ## hours: all that make test leaves out, each engine whole, Python 3.13
	@$(PARALLEL) -m "(thorough or slow) and not ($(ENGINES) or notebooks or site)"
	@$(PYTEST) -m "$(ENGINES)"
	@LDPBEAM_FLINK=1.20 $(PYTEST) -m flink -k recovers tests/flink
	@PYENV_VERSION=3.13 $(MAKE) test VENV=.venv-3.13 PYTHON=python3.13

proto: $(STAMP)
	@$(BIN)/python -m grpc_tools.protoc -I proto --python_out=. --pyi_out=. proto/ldpbeam/wire/*.proto

package: $(STAMP) .venv-package/.installed ## build wheel and sdist into dist/, and try each outside the checkout
	@$(BIN)/python -m tests.repository.package .venv-package/bin/python

# Not with --quiet, which also keeps warnings from being counted.
docs: $(STAMP) .venv-docs/.installed ## every command of every page, and the site (site/index.html)
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --clean
	@$(PARALLEL) -m "not (notebooks or kotlin)" tests/docs

notebooks: $(STAMP) .venv-notebooks/.installed
	@$(PYTEST) -m notebooks tests/docs/test_notebooks.py

clean:
	rm -rf .venv* site build dist demo-output reproduction-output ldpbeam.egg-info .*_cache .hypothesis

# --- real engines: here what sees a fault of each; make nightly runs the suites whole

flink: $(STAMP) java ## Flink with files, Kafka and Pub/Sub, through kills (fetches Flink)
	@$(PYTEST) -m "flink and not slow" tests/flink

pubsub: $(STAMP) ## a Pub/Sub emulator on this machine
	@$(PYTEST) -m "pubsub and not slow" tests/pubsub

prism: $(STAMP) ## Beam's Prism (built with Go)
	@$(PYTEST) -m prism tests/prism

js: $(STAMP) js-build ## the TypeScript client (Node 18 or newer)
	cd clients/js && npm test
	@$(PYTEST) -m javascript tests/javascript

# All features: the tests' programs script the system's randomness, which no release can.
rust: $(STAMP) cargo ## the Rust device (Rust 1.89 or newer)
	cd clients/rust && cargo fmt --check && cargo clippy --locked --quiet --all-targets --all-features -- -D warnings && \
	  cargo test --locked --quiet --all-features
	@$(PARALLEL) -m rust tests/rust

# Bindings are read from a library with its symbols, which no release has.
kotlin: $(STAMP) java cargo ## the Kotlin device, and its page (Rust 1.89, Java 17, Maven)
	cd clients/rust && cargo build --locked --release -p ldpbeam-device-ffi
	cd clients/rust && cargo build --locked -p ldpbeam-device-ffi --features bindgen && \
	  target/debug/uniffi-bindgen target/debug/libldpbeam_device_ffi.so ../kotlin/target/bindings
	install -D clients/rust/target/release/libldpbeam_device_ffi.so \
	  clients/kotlin/target/native/linux-$$(uname -m | tr _ -)/libldpbeam_device_ffi.so
	cd clients/kotlin && mvn -B -ntp install
	@$(PYTEST) -m kotlin tests/docs/test_commands.py

browser: $(STAMP) chromium js-build axe ## pages in Chromium
	@$(PARALLEL) -m browser tests/browser

crash: $(STAMP) compiler ## runs, devices and collectors are killed, and lose power
	@$(PARALLEL) -m "not slow" tests/crash tests/collector_crash tests/ldpbeam/client/test_damage.py

schedules: $(STAMP)
	@$(PARALLEL) -m "not slow" tests/ldpbeam/engine/test_schedules.py tests/transforms/stateful/test_subtasks.py

fuzz: $(STAMP)
	@$(PARALLEL) -m "not slow" tests/fuzz

examples: $(STAMP)
	@$(PYTEST) -m "not thorough" tests/examples

# --- what the suites need

# A program: root installs it by apt, others are told how.
NEEDS = @command -v $(1) >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; } || \
  { echo "error: $(1) is not installed; on Debian: sudo apt-get install $(2)" >&2; exit 1; }
java: ; $(call NEEDS,mvn,openjdk-17-jdk-headless maven)
chromium: ; $(call NEEDS,chromium,chromium)
compiler: ; $(call NEEDS,cc,gcc libc6-dev)
npm: ; $(call NEEDS,npm,npm)
cargo: ; @command -v cargo >/dev/null || { echo "error: cargo is not installed; https://rustup.rs installs it" >&2; exit 1; }

js-build: npm clients/js/build/.built
clients/js/build/.built: $(wildcard clients/js/*.json clients/js/src/*.ts clients/js/test/*.ts)
	cd clients/js && npm ci --ignore-scripts --no-audit --no-fund && npm run build
	@touch $@

axe: npm tests/browser/node_modules/.package-lock.json
tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json
	cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

# --- environments

# PYTHON, where given, is the only candidate; a candidate counts only if it runs and is 3.11, 3.12 or 3.13
# (a pyenv shim can exist and not run).
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3)
define MAKE_VENV
set -e; chosen=; \
for one in $(CANDIDATES); do \
  if "$$one" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then chosen=$$one; break; fi; \
done; \
if [ -z "$$chosen" ]; then \
  echo "error: ldpbeam needs Python 3.11, 3.12 or 3.13, tried: $(CANDIDATES); install one, or say make PYTHON=/path/to/python3.11" >&2; exit 1; \
fi; \
[ -x $(BIN)/python ] || "$$chosen" -m venv $(VENV) || { rm -rf $(VENV); \
  echo "error: $$chosen cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
endef
# uv installs what pip does, many times faster. pip knows settings of its own that uv does not, such as a mirror:
# where uv fails, pip says why, or can do it. Both refuse what has another hash than the lock has; the project
# itself comes last, alone, built by the setuptools of the lock.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV := $(BIN)/uv pip install --quiet --system-certs
INSTALL = { $(PIP) --require-hashes -r requirements/installer.txt && \
  { $(UV) --python $(BIN)/python --require-hashes -r $(1) 2>/dev/null || $(PIP) --require-hashes -r $(1); } && \
  $(PIP) --no-deps --no-build-isolation -e .; }
LOCKS := $(wildcard requirements/*.txt)

.venv: $(STAMP)
$(STAMP): pyproject.toml $(LOCKS)
	@$(MAKE_VENV)
	@echo "Installing into $(VENV), by requirements/all.txt"; $(call INSTALL,requirements/all.txt)
	@touch $@

# Only what the demo and the papers need; nothing where all is installed already.
$(DEMO_STAMP): pyproject.toml $(LOCKS)
	@$(MAKE_VENV)
	@test $(STAMP) -nt pyproject.toml -a $(STAMP) -nt requirements/all.txt || $(call INSTALL,requirements/user.txt)
	@touch $@

# Tools have environments of their own: $(call TOOLS,folder,locks of requirements/).
TOOLS = $(BIN)/python -m venv --without-pip $(1) && \
  $(UV) --python $(1)/bin/python --require-hashes $(foreach name,$(2),-r requirements/$(name).txt)
.venv-%/.installed: $(STAMP) requirements/%.txt requirements/user.txt
	@$(call TOOLS,.venv-$*,$(if $(filter notebooks,$*),user) $*)
	@$(if $(filter notebooks,$*),$(UV) --python .venv-$*/bin/python --no-deps --no-build-isolation -e .)
	@touch $@

# Resolved for every declared Python at once, outside the working environment: no leftover slips into the
# pins, and it works while pyproject.toml and the lock contradict each other, which is when it is needed.
# all.txt is the lock; the others are parts of it, resolved with its versions.
lock:
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; $(MAKE_VENV); \
	"$$chosen" -m venv "$$tmp/venv"; "$$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv; \
	resolve() { name=$$1; shift; \
	  "$$tmp/venv/bin/uv" pip compile --quiet --system-certs --universal --python-version 3.11 --no-header --no-annotate \
	    --no-emit-index-url --generate-hashes --no-emit-package ldpbeam "$$@" > "$$tmp/$$name.txt"; \
	  { echo "# Exact versions and hashes for every declared version of Python. Written by 'make lock'; edit pyproject.toml."; \
	    cat "$$tmp/$$name.txt"; } > requirements/$$name.txt; }; \
	part() { name=$$1; shift; printf '%s\n' "$$@" > "$$tmp/$$name.in"; resolve "$$name" -c "$$tmp/all.txt" "$$tmp/$$name.in"; }; \
	printf 'uv\nsetuptools>=77\n' > "$$tmp/tools.in"; \
	resolve all --extra dev pyproject.toml "$$tmp/tools.in"; \
	resolve user -c "$$tmp/all.txt" --extra page --extra collect pyproject.toml "$$tmp/tools.in"; \
	resolve gcp -c "$$tmp/all.txt" --extra gcp pyproject.toml "$$tmp/tools.in"; \
	part installer uv 'setuptools>=77'; part sbom cyclonedx-bom pip-licenses; part notebooks nbclient nbformat ipykernel; \
	part package build check-wheel-contents 'setuptools>=77' twine; part docs mkdocs-material mkdocstrings-python

# Of an environment that has what users get, and nothing else; by tools in one of their own: with them in .venv
# jsonschema, which Altair imports, would read a grammar at each start, which takes a second.
LICENCES := Apache;MIT;BSD;ISC;PSF;Python Software Foundation;MPL;Mozilla;CC0;Unlicense;The Unlicense;Zlib;HPND;0BSD
sbom: $(STAMP) .venv-sbom/.installed
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir -p dist; $(call TOOLS,"$$tmp",user gcp); \
	$(UV) --python "$$tmp/bin/python" --no-deps .; $(BIN)/uv pip uninstall --quiet --python "$$tmp/bin/python" uv setuptools; \
	.venv-sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file dist/sbom.cdx.json "$$tmp/bin/python"; \
	.venv-sbom/bin/pip-licenses --python "$$tmp/bin/python" --from mixed --order license --format plain --output-file dist/licences.txt \
	  --partial-match --allow-only "$(LICENCES)"; \
	echo "dist/sbom.cdx.json and dist/licences.txt say what an installation brings"
