"""Choosing: which protocols and levels fit a need, with the errors and losses that they would have.

Pure functions of a few numbers, which simulate nothing: every figure follows from a protocol's exact integers
(docs/planning.md).
"""
