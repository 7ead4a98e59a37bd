# Included by the Makefile: `make crash` kills `ldpbeam run` at CRASH_POINTS points and runs it again each time.

.PHONY: crash crash-devices compiler
CRASH_POINTS ?= 240
# Bits from one that is flipped to the next; 1 flips every bit of every file of a device, which takes 45 minutes.
FLIP_STEP ?= 11
# How many losses of power are tried in each of a device's two lives.
POWER_LOSSES ?= 60

crash: $(STAMP) compiler ## kill a run at 240 points (CRASH_POINTS=...), lose power, and run it again: same bytes
	@CRASH_POINTS=$(CRASH_POINTS) $(PYTEST) --thorough -m 'slow or not slow' --durations=3 tests/crash

crash-devices: $(STAMP) compiler ## kill 300 devices 1,200 times, and lose power at every call: nothing is drawn twice
	@FLIP_STEP=$(FLIP_STEP) POWER_LOSSES=$(POWER_LOSSES) $(PYTEST) --thorough -m 'slow or not slow' --durations=5 \
		tests/crash/test_devices.py tests/crash/test_recorder.py tests/ldpbeam/client/test_damage.py

# What a machine loses with its power is recorded by a library in C (tests/crash/recorder.c).
compiler:
	@if ! command -v cc >/dev/null && ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; \
	  else \
	    echo "error: the tests of power losses need a C compiler; install one (Debian: sudo apt-get install gcc libc6-dev) and run make again" >&2; exit 1; \
	  fi; \
	fi
