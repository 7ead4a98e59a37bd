"""Numba loops over arrays that are passed in: no validation, randomness, allocation policy or Beam."""
