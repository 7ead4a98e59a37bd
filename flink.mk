# The suites on runners that are programs of their own; included by Makefile.

# The line of Flink (1.19 or 1.20), and how often `make flink-kafka` and
# `make flink-pubsub` run each of their two tests.
FLINK ?= 1.19
RUNS ?= 20
# Which of the tests of `make flink`, as pytest's -k has it; empty: all.
FLINK_CASES ?=

.PHONY: flink flink-kafka flink-pubsub flink-next prism java

flink: $(STAMP) java ## the pipeline on Flink: embedded, on a cluster, through failures (fetches Flink)
	@LDPBEAM_FLINK=$(FLINK) $(BIN)/python -m tests.flink.fetch
	@LDPBEAM_FLINK=$(FLINK) $(PYTEST) -m "flink and not slow" -k "$(FLINK_CASES)" tests/flink

flink-kafka: $(STAMP) java ## a Kafka topic on Flink, RUNS times undisturbed and RUNS times through a kill
	@LDPBEAM_FLINK=$(FLINK) $(BIN)/python -m tests.flink.fetch
	@LDPBEAM_FLINK=$(FLINK) LDPBEAM_FLINK_RUNS=$(RUNS) $(PYTEST) -v -m flink tests/flink/test_kafka.py

flink-pubsub: $(STAMP) java ## a subscription on Flink, RUNS times undisturbed and RUNS times through a kill
	@LDPBEAM_FLINK=$(FLINK) $(BIN)/python -m tests.flink.fetch
	@LDPBEAM_FLINK=$(FLINK) LDPBEAM_FLINK_RUNS=$(RUNS) $(PYTEST) -v -m flink tests/flink/test_pubsub.py

# Through a kill is enough: what counts there counts the same undisturbed.
flink-next: $(STAMP) java ## the recovery test on the next line of Flink
	@LDPBEAM_FLINK=1.20 $(BIN)/python -m tests.flink.fetch
	@LDPBEAM_FLINK=1.20 $(PYTEST) -m flink -k recovers tests/flink/test_flink.py

prism: $(STAMP) ## the graph over files on Beam's Prism (built with Go, the first call fetches its modules)
	@$(PYTEST) -m prism tests/prism

java:
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless maven >/dev/null; \
	  else \
	    echo "error: the Flink suite needs Java 17 and Maven; install them (Debian: sudo apt-get install openjdk-17-jdk-headless maven) and run make flink again" >&2; exit 1; \
	  fi; \
	fi
