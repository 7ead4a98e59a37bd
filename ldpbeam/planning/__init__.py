"""Choosing: which protocols and levels fit a need, with the errors and losses that they would have.

Pure functions of a few numbers, which simulate nothing: every figure follows from a protocol's exact integers
(docs/planning.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, Ordered, OrderedNeeds
    from ldpbeam.planning.plan import Plan, devices_needed, make_plan
    from ldpbeam.planning.sentences import described, recommendation

_HOMES = {
    "needs": ("FrequencyNeeds", "MeanNeeds", "Ordered", "OrderedNeeds"),
    "plan": ("Plan", "devices_needed", "make_plan"),
    "sentences": ("described", "recommendation"),
}
"""Public names by the modules that define them: a page of results takes a part of this, not all."""

__all__ = [
    "FrequencyNeeds", "MeanNeeds", "Ordered", "OrderedNeeds", "Plan", "described", "devices_needed",
    "make_plan", "recommendation",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
