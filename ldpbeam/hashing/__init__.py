"""The hash families of local hashing, in one explicit table.

Privacy never depends on the hash. What the estimator needs is the exact probability ``collision`` that two
different values share a hash; with it, P(support | another value) = c·own + (1 − c)(1 − own)/(g − 1).
"""

from ldpbeam.hashing.affine import AffineFamily
from ldpbeam.hashing.base import HashFamily
from ldpbeam.hashing.linear import LinearFamily, is_prime, optimal_prime

__all__ = ["FAMILIES", "AffineFamily", "HashFamily", "LinearFamily", "is_prime", "optimal_prime"]

FAMILIES: dict[str, type[HashFamily]] = {"affine": AffineFamily, "linear": LinearFamily}
"""Hash families by the name that a collection file uses."""
