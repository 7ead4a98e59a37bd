# Included by the Makefile: `make crash` kills `ldpbeam run` at CRASH_POINTS points and runs it again each time.

.PHONY: crash crash-devices
CRASH_POINTS ?= 240

crash: $(STAMP) ## kill a run at 240 points (CRASH_POINTS=...) and run it again each time: same bytes
	@CRASH_POINTS=$(CRASH_POINTS) $(PYTEST) --thorough -m 'slow or not slow' --durations=3 tests/crash

crash-devices: $(STAMP) ## kill 300 devices 1,200 times, and lose power at every call: nothing is drawn twice
	@$(PYTEST) --thorough -m 'slow or not slow' --durations=5 tests/crash/test_devices.py
