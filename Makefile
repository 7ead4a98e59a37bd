# A user needs two of these on a fresh machine with Python 3.11, 3.12 or 3.13: `make demo` and `make test`.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BENCH_STAMP := $(VENV)/.installed-bench
NOTEBOOKS := $(VENV)-notebooks
NOTEBOOKS_STAMP := $(NOTEBOOKS)/.installed
DOCS := $(VENV)-docs
DOCS_STAMP := $(DOCS)/.installed
PROTOC := $(BIN)/python -m grpc_tools.protoc -I proto
PROTOS := $(sort $(wildcard proto/ldpbeam/wire/*.proto))
DEMO_OUT ?= demo-output
# What `make reproduce` computes, and of which data; docs/reproduction.md explains these variables.
EXPERIMENTS ?=
DATA ?= data
REPRODUCTION_OUT ?= reproduction-output
OPTIONS ?=
# loadfile: one file's tests share a process, and what they set up; tests/conftest.py says which come first.
# One process more than there are cores, since tests wait for a tenth of their time; at most 8, since each takes up
# to a gigabyte.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n < 8 ? n + 1 : 8)))
# Minutes within which tests may begin that `make check` adds to those of `make test`; empty: however long it takes.
THOROUGH_WITHIN ?=
# Tests that `make check` leaves to other suites of .ci/run.
LATER ?=
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Compiled modules are kept, also where the caller's shell says not to: the suites start hundreds of interpreters.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help .venv demo reproduce test test-all check format-check lint types format proto proto-check \
	newest browser chromium notebooks notebooks-write docs lock sbom package bench-accuracy bench-over-time bench-peers bench-throughput clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environment

.venv: $(STAMP) ## the virtual environment, from requirements/all.txt (PYTHON=... to choose the interpreter)

# PYTHON, where given, is the only candidate; a candidate counts only if it runs and is 3.11, 3.12 or 3.13
# (a pyenv shim can exist and not run).
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3)
CHOOSE_PYTHON = chosen=; \
  for candidate in $(CANDIDATES); do \
    if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
    then chosen=$$candidate; break; fi; \
  done; \
  if [ -z "$$chosen" ]; then \
    echo "error: ldpbeam needs Python 3.11, 3.12 or 3.13, tried: $(CANDIDATES); install one, or say make PYTHON=/path/to/python3.11" >&2; \
    exit 1; \
  fi

define MAKE_VENV
set -e; \
if [ ! -x $(BIN)/python ]; then \
  $(CHOOSE_PYTHON); \
  "$$chosen" -m venv $(VENV) || { rm -rf $(VENV); \
    echo "error: $$chosen cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }; \
fi
endef
# uv installs what pip does, many times faster. pip knows settings of its own that uv does not, such as a mirror:
# where uv fails, pip says why, or can do it. Both refuse what has another hash than the lock has; the project
# itself comes last, alone, built by the setuptools of the lock.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV := $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python
INSTALL = { $(PIP) --require-hashes -r requirements/installer.txt && \
  { $(UV) --require-hashes -r $(LOCK) 2>/dev/null || $(PIP) --require-hashes -r $(LOCK); } && \
  $(PIP) --no-deps --no-build-isolation -e .; }
LOCKS := $(wildcard requirements/*.txt)
$(STAMP): LOCK := requirements/all.txt
$(DEMO_STAMP): LOCK := requirements/user.txt

$(STAMP): pyproject.toml $(LOCKS)
	@$(MAKE_VENV)
	@echo "Installing into $(VENV), by requirements/all.txt"; $(INSTALL)
	@touch $@

# Only what the demo and the papers need; nothing where all is installed already.
$(DEMO_STAMP): pyproject.toml $(LOCKS)
	@$(MAKE_VENV)
	@test $(STAMP) -nt pyproject.toml -a $(STAMP) -nt requirements/all.txt || $(INSTALL)
	@touch $@

# Other people's implementations, by the versions that pyproject.toml names; what they need keeps to ours.
$(BENCH_STAMP): $(STAMP)
	@$(UV) -c requirements/all.txt -e '.[bench]'
	@touch $@

# An environment of tools beside .venv: $(call TOOLS,folder,locks of requirements/).
TOOLS = $(BIN)/python -m venv --without-pip $(1) && $(BIN)/uv pip install --quiet --system-certs \
  --python $(1)/bin/python --require-hashes $(foreach name,$(2),-r requirements/$(name).txt)

# Jupyter, beside what a user of notebooks has; the project itself is the checkout.
$(NOTEBOOKS_STAMP): $(STAMP) requirements/notebooks.txt requirements/user.txt
	@$(call TOOLS,$(NOTEBOOKS),user notebooks)
	@$(BIN)/uv pip install --quiet --python $(NOTEBOOKS)/bin/python --no-deps --no-build-isolation -e .
	@touch $@

# What builds the site; it reads the source and does not import it.
$(DOCS_STAMP): $(STAMP) requirements/docs.txt
	@$(call TOOLS,$(DOCS),docs)
	@touch $@

# Resolved for every declared Python at once, outside the working environment: no leftover slips into the
# pins, and it works while pyproject.toml and the lock contradict each other, which is when it is needed.
# all.txt is the lock; the others are parts of it, resolved with its versions.
COMPILE = "$$tmp/venv/bin/uv" pip compile --quiet --system-certs --universal --python-version 3.11 \
  --no-header --no-annotate --no-emit-index-url --generate-hashes
lock: ## resolve the newest allowed versions again and write requirements/
	@set -e; $(CHOOSE_PYTHON); tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	"$$chosen" -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv; \
	printf 'uv\nsetuptools>=77\n' > "$$tmp/installer.in"; \
	$(COMPILE) --extra dev --no-emit-package ldpbeam pyproject.toml "$$tmp/installer.in" > "$$tmp/all.txt"; \
	$(COMPILE) -c "$$tmp/all.txt" "$$tmp/installer.in" > "$$tmp/installer.txt"; \
	$(COMPILE) -c "$$tmp/all.txt" --extra page --extra collect --no-emit-package ldpbeam pyproject.toml "$$tmp/installer.in" > "$$tmp/user.txt"; \
	$(COMPILE) -c "$$tmp/all.txt" --extra gcp --no-emit-package ldpbeam pyproject.toml "$$tmp/installer.in" > "$$tmp/gcp.txt"; \
	printf 'cyclonedx-bom\npip-licenses\n' > "$$tmp/sbom.in"; \
	printf 'build\ncheck-wheel-contents\nsetuptools>=77\ntwine\n' > "$$tmp/package.in"; \
	printf 'nbclient\nnbformat\nipykernel\n' > "$$tmp/notebooks.in"; \
	printf 'mkdocs-material\nmkdocstrings-python\n' > "$$tmp/docs.in"; \
	for name in sbom package notebooks docs; do $(COMPILE) -c "$$tmp/all.txt" "$$tmp/$$name.in" > "$$tmp/$$name.txt"; done; \
	for name in all user gcp sbom package notebooks docs installer; do \
	  { echo "# Exact versions and hashes for every declared version of Python. Written by 'make lock'; edit pyproject.toml."; \
	    cat "$$tmp/$$name.txt"; } > requirements/$$name.txt; \
	done

# Of an environment that has what users get, and nothing else; by tools in one of their own: with them in .venv
# jsonschema, which Altair imports, would read a grammar at each start, which takes a second.
sbom: $(STAMP) ## list all that an installation brings (dist/sbom.cdx.json), and its licences
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir -p dist; \
	$(call TOOLS,"$$tmp/tools",sbom); $(call TOOLS,"$$tmp/venv",user gcp); \
	$(BIN)/uv pip install --quiet --python "$$tmp/venv/bin/python" --no-deps .; \
	$(BIN)/uv pip uninstall --quiet --python "$$tmp/venv/bin/python" uv setuptools; \
	"$$tmp/tools/bin/cyclonedx-py" environment --pyproject pyproject.toml --output-reproducible --output-file dist/sbom.cdx.json "$$tmp/venv/bin/python"; \
	"$$tmp/tools/bin/pip-licenses" --python "$$tmp/venv/bin/python" --from mixed --order license --format plain --output-file dist/licences.txt \
	  --partial-match --allow-only "Apache;MIT;BSD;ISC;PSF;Python Software Foundation;MPL;Mozilla;CC0;Unlicense;The Unlicense;Zlib;HPND;0BSD" >/dev/null; \
	"$$tmp/tools/bin/pip-licenses" --python "$$tmp/venv/bin/python" --from mixed --summary; \
	echo "dist/sbom.cdx.json and dist/licences.txt say what an installation brings"

# The tools have an environment of their own, as those of sbom have.
PACKAGE_TOOLS := .venv-package/bin/python
package: $(STAMP) .venv-package/.installed ## build wheel and sdist into dist/, and try each outside the checkout
	@$(BIN)/python -m tests.repository.package $(PACKAGE_TOOLS)

.venv-package/.installed: $(STAMP) requirements/package.txt
	@$(call TOOLS,.venv-package,package)
	@touch $@

# --- for users

demo: $(DEMO_STAMP) ## simulate devices, run the pipeline, write a report (about a minute)
	@$(BIN)/ldpbeam demo --output $(DEMO_OUT)
	@echo "The demo's report and the files behind it are in $(DEMO_OUT)/"

reproduce: $(DEMO_STAMP) ## the papers' tables and figures (EXPERIMENTS=..., DATA=..., OPTIONS=--quick)
	@$(BIN)/python -m reproduction $(EXPERIMENTS) --data $(DATA) --output $(REPRODUCTION_OUT) $(OPTIONS)

test: $(STAMP) ## the default tests (no browser, no emulators)
	@$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-all: $(STAMP) compiler ## the default tests, and those that say the same of more cases
	@$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder --thorough \
		$(if $(THOROUGH_WITHIN),--thorough-within=$(THOROUGH_WITHIN)) $(addprefix --deselect=,$(LATER))

# --- for developers

check: format-check lint types proto-check package test-all ## all that CI asks of a change, except the integration suites

format-check: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP) ## style, and which room imports which
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP) ## format the source and apply the linter's safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(STAMP) ## generate ldpbeam/wire/*_pb2.py and .pyi from proto/
	$(PROTOC) --python_out=. --pyi_out=. $(or $(PROTOS),$(error no .proto files in proto/ldpbeam/wire))

# Both sides hold only generated files, so one left over from a deleted .proto shows as well.
proto-check: $(STAMP) ## does the committed generated code match proto/?
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/committed" "$$tmp/fresh"; \
	$(PROTOC) --python_out="$$tmp/fresh" --pyi_out="$$tmp/fresh" $(or $(PROTOS),$(error no .proto files in proto/ldpbeam/wire)); \
	cp ldpbeam/wire/*_pb2.py ldpbeam/wire/*_pb2.pyi "$$tmp/committed/"; \
	diff -ru "$$tmp/committed" "$$tmp/fresh/ldpbeam/wire" || \
	  { echo "error: the generated code in ldpbeam/wire is not what proto/ gives; run 'make proto'" >&2; exit 1; }

# pyenv's commands exist whether or not they run; its versions lie in its own folder.
NEWEST := 3.13
# Without the rooms above the pipelines, whose tests run whole commands.
ABOVE := $(addprefix tests/ldpbeam/,__pycache__ cli collector engine records report_page)
HALF := $(filter-out $(ABOVE),$(wildcard tests/ldpbeam/*)) tests/simulators tests/statistical tests/transforms tests/vectors
# Two cases of each test, in one process: a difference between Pythons mostly shows in each case.
newest: ## a quick half of the tests on Python 3.13, where it is installed, in an environment of its own
	@for candidate in python$(NEWEST) $(HOME)/.pyenv/versions/$(NEWEST)*/bin/python3; do \
	  if "$$candidate" -c '' 2>/dev/null; then \
	    exec $(MAKE) test VENV=.venv-$(NEWEST) PYTHON="$$candidate" JOBS=0 TESTS="--cases 2 $(HALF)"; fi; \
	done; echo "LEFT OUT: make newest, since Python $(NEWEST) is not installed."

browser: $(STAMP) chromium js-build axe ## the tests that look at pages in Chromium
	@$(PYTEST) -m browser tests/browser tests/ldpbeam/report_page

notebooks: $(STAMP) $(NOTEBOOKS_STAMP) ## execute the notebooks of docs/notebooks, and compare their outputs
	@$(PYTEST) -m notebooks tests/docs/test_notebooks.py

# Not with --quiet, which also keeps warnings from being counted.
docs: $(STAMP) $(DOCS_STAMP) ## build the site (site/index.html); a warning or a dead link is an error
	@$(BIN)/python -m tests.docs.options > $(DOCS)/options.md
	@NO_MKDOCS_2_WARNING=1 LDPBEAM_OPTIONS=$(DOCS)/options.md $(DOCS)/bin/mkdocs build --strict --clean
	@$(PYTEST) -m site tests/docs/test_site.py

notebooks-write: $(NOTEBOOKS_STAMP) ## execute the notebooks, and keep what they put out
	@for each in docs/notebooks/*.ipynb; do $(NOTEBOOKS)/bin/python -m tests.docs.execute $$each $$each || exit; done

chromium:
	@if ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else \
	    echo "error: the browser tests need Chromium; install it (Debian: sudo apt-get install chromium) and run make browser again" >&2; exit 1; \
	  fi; \
	fi

bench-accuracy: $(STAMP) ## error on real data against theory
	$(BIN)/python benchmarks/accuracy.py

bench-fixed: $(STAMP) ## what a command costs however few its reports are
	$(BIN)/python benchmarks/fixed_cost.py

bench-bandwidth: $(STAMP) ## how fast reports are checked and counted beside how fast memory is read
	$(BIN)/python benchmarks/bandwidth.py

bench-intervals: $(STAMP) ## what intervals cost beside the counting of the reports
	$(BIN)/python benchmarks/intervals.py

bench-ordered: $(STAMP) ## which histogram of values in an order has the least error; FULL=1 for more sizes and rounds
	$(BIN)/python benchmarks/ordered.py $(if $(FULL),--full)

bench-memory: $(STAMP) ## the largest memory of run, report, compare and export, where a domain is large
	$(BIN)/python benchmarks/memory.py

bench-over-time: $(STAMP) ## do intervals of means, differences and trends over epochs hold?
	$(BIN)/python benchmarks/over_time.py --groups 60

bench-peers: $(BENCH_STAMP) ## speed beside other libraries, in one run; writes docs/performance.md
	$(BIN)/python benchmarks/peers.py --write

bench-throughput: $(STAMP) ## the pipeline against a plain loop without Beam
	$(BIN)/python benchmarks/throughput.py

clean: ## remove the environment, caches and demo output
	rm -rf $(VENV) $(NOTEBOOKS) $(DOCS) .venv-$(NEWEST) .venv-package site $(DEMO_OUT) $(REPRODUCTION_OUT) build ldpbeam.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- suites with parts of their own

include collector.mk crash.mk pubsub.mk flink.mk schedules.mk fuzz.mk js.mk
