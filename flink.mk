# The Flink suite; included by Makefile.

.PHONY: flink java

flink: $(STAMP) java ## the pipeline on Flink: embedded, on a cluster, through failures (fetches Flink)
	@$(BIN)/python -m tests.flink.fetch
	@$(PYTEST) -m "flink and not slow" tests/flink

java:
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless maven >/dev/null; \
	  else \
	    echo "error: the Flink suite needs Java 17 and Maven; install them (Debian: sudo apt-get install openjdk-17-jdk-headless maven) and run make flink again" >&2; exit 1; \
	  fi; \
	fi
