# Included by the Makefile: `make crash-collector` kills collectors, and engines that count behind them.

.PHONY: crash-collector bench-collector
COLLECTOR_POINTS ?= 200

crash-collector: $(STAMP) compiler ## kill -9 at 200 points under load (COLLECTOR_POINTS=...): nothing answered is lost
	@COLLECTOR_POINTS=$(COLLECTOR_POINTS) $(PYTEST) --thorough --durations=3 tests/collector_crash

bench-collector: $(STAMP) ## reports per second of the collector (needs wrk)
	$(BIN)/python benchmarks/collector.py
