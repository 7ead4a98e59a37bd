# Included by the Makefile: `make schedules` runs SCHEDULES_COUNT random schedules of the local engine; above 200
# with other seeds than `make check` has for its 48. `.ci/run` has 200 of them, of the same
# seeds (16 on a machine that is many times slower than usual).
# `make schedules-cluster` does so for the steps of cluster jobs.

.PHONY: schedules
SCHEDULES_COUNT ?= 5000

schedules: $(STAMP) ## 5,000 random schedules of the local engine (SCHEDULES_COUNT=...), with crashes anywhere
	@SCHEDULES=$(SCHEDULES_COUNT) $(PYTEST) -n $(JOBS) --dist load --thorough -k never_lost --durations=3 \
		tests/ldpbeam/engine/test_schedules.py

.PHONY: schedules-cluster
SUBTASK_SCHEDULES ?= 10000

schedules-cluster: $(STAMP) ## 10,000 random schedules of the steps with state on subtasks out of step (SUBTASK_SCHEDULES=...)
	@SUBTASK_SCHEDULES=$(SUBTASK_SCHEDULES) $(PYTEST) -n $(JOBS) --dist load --durations=3 \
		--thorough -m slow tests/transforms/stateful/test_subtasks.py
