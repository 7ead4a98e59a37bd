# Included by the Makefile: `make crash` kills `ldpbeam run` at CRASH_POINTS points and runs it again each time.

.PHONY: crash
CRASH_POINTS ?= 240

crash: $(STAMP) ## kill a run at 240 points (CRASH_POINTS=...) and run it again each time: same bytes
	@CRASH_POINTS=$(CRASH_POINTS) $(PYTEST) -m 'slow or not slow' --durations=3 tests/crash
