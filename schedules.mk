# Included by the Makefile: `make schedules` runs SCHEDULES random schedules of the local engine, with other
# seeds than `make test` has for its 200.

.PHONY: schedules
SCHEDULES_COUNT ?= 5000

schedules: $(STAMP) ## 5,000 random schedules of the local engine (SCHEDULES_COUNT=...), with crashes anywhere
	@SCHEDULES=$(SCHEDULES_COUNT) $(PYTEST) -n $(JOBS) --dist load -k never_lost --durations=3 \
		tests/pipelines/stream/test_schedules.py
