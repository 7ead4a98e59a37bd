# The tests that need Pub/Sub: Google's emulator (with Java), or Google's fake for Go programs (with Go 1.24).

.PHONY: pubsub

pubsub: $(STAMP) ## the tests against a Pub/Sub emulator on this machine
	@$(PYTEST) -m pubsub tests/pubsub
