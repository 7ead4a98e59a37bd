"""The wire format: generated messages, and a codec that reads them as columns."""
