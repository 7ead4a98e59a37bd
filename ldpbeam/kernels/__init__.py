"""Numba loops over arrays: no validation, randomness or Beam."""
