# The TypeScript client: a second implementation of docs/wire.md, kept byte-compatible by tests/vectors.
# And the examples that run devices, collector and pipeline together.

.PHONY: js js-build axe examples

js: $(STAMP) js-build ## build, test and audit the TypeScript client (Node 18 or newer)
	cd clients/js && npm test
	@$(PYTEST) -m javascript tests/javascript

# Once for `make js` and `make browser`, unless something has changed since.
JS_BUILT := clients/js/build/.built
js-build: $(JS_BUILT)

$(JS_BUILT): clients/js/package.json clients/js/package-lock.json clients/js/tsconfig.json $(wildcard clients/js/src/*.ts clients/js/test/*.ts)
	@command -v npm >/dev/null || { echo "error: the TypeScript client needs Node 18 or newer and npm" >&2; exit 1; }
	cd clients/js && npm ci --ignore-scripts --no-audit --no-fund && npm run build
	@touch $@

# What `make browser` judges the report page with.
AXE := tests/browser/node_modules/axe-core/axe.min.js
axe: $(AXE)

$(AXE): tests/browser/package.json tests/browser/package-lock.json
	@command -v npm >/dev/null || { echo "error: axe-core comes by npm, of Node 18 or newer" >&2; exit 1; }
	cd tests/browser && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

examples: $(STAMP) ## the agent example as a person runs it, from nothing to its histogram
	@$(PYTEST) -m slow tests/examples
