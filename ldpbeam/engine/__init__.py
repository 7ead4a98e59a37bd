"""A stream on one machine: counted in small steps, with state that survives a crash."""
