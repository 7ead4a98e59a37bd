# Included by the Makefile: `make fuzz` gives the readers FUZZ_MESSAGES mutated messages and FUZZ_FILES mutated
# files; `make test` has a few thousand of each.

.PHONY: fuzz
FUZZ_MESSAGES ?= 2760000
FUZZ_FILES ?= 76000

fuzz: $(STAMP) ## 2,760,000 mutated messages and 76,000 mutated files (FUZZ_MESSAGES=..., FUZZ_FILES=...)
	@FUZZ_MESSAGES=$(FUZZ_MESSAGES) FUZZ_FILES=$(FUZZ_FILES) \
		$(PYTEST) -n $(JOBS) --dist load --thorough -m 'slow or not slow' --durations=3 tests/fuzz
