"""The process and its machine: signals, memory, small HTTP servers, numbers for Prometheus."""
