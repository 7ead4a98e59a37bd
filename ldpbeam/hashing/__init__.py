"""The hash families of local hashing, in one explicit table.

Privacy never depends on the hash. Of a universal family the estimator needs the exact probability
``collision`` that two different values share a hash; with it, P(support | another value) =
c·own + (1 − c)(1 − own)/(g − 1). Of the interval family it needs the stretches of values of every function.
"""

from ldpbeam.hashing.affine import AffineFamily
from ldpbeam.hashing.base import HashFamily, UniversalFamily
from ldpbeam.hashing.interval import IntervalFamily, optimal_stretches
from ldpbeam.hashing.linear import LinearFamily, is_prime, optimal_prime
from ldpbeam.hashing.listed import ListedFamily

__all__ = [
    "FAMILIES",
    "AffineFamily",
    "HashFamily",
    "IntervalFamily",
    "LinearFamily",
    "ListedFamily",
    "UniversalFamily",
    "is_prime",
    "optimal_prime",
    "optimal_stretches",
]

FAMILIES: dict[str, type[HashFamily]] = {
    "linear": LinearFamily,
    "affine": AffineFamily,
    "interval": IntervalFamily,
}
"""Hash families by the name that a collection file uses."""
