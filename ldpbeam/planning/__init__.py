"""Choosing: which protocols and levels fit a need, with the errors and losses that they would have.

Pure functions of a few numbers, which simulate nothing: every figure follows from a protocol's exact integers
(docs/planning.md).
"""

from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Ordered, OrderedNeeds
from ldpbeam.planning.plan import Plan, devices_needed, make_plan
from ldpbeam.planning.sentences import described, recommendation

__all__ = [
    "FrequencyNeeds",
    "MeanNeeds",
    "Ordered",
    "OrderedNeeds",
    "Plan",
    "described",
    "devices_needed",
    "make_plan",
    "recommendation",
]
