# The TypeScript client: a second implementation of docs/wire.md, kept byte-compatible by tests/vectors.

.PHONY: js

js: ## build and test the TypeScript client (Node 18 or newer)
	@command -v npm >/dev/null || { echo "error: the TypeScript client needs Node 18 or newer and npm" >&2; exit 1; }
	cd clients/js && npm ci --ignore-scripts --no-audit --no-fund && npm run build && npm test
