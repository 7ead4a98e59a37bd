"""Unbounded input: the graph for runners that keep state, and the engine for one machine."""
