"""Simulation: populations with a known truth, and randomness that does not depend on batching."""
