"""Sums of raw frequencies with their errors: groups of values, cumulative shares, quantiles and means.

``consistent`` frequencies must not be added up (docs/consistency.md). Raw ones may, but their errors go
together in ways that depend on the protocol. docs/groups.md has the formulas, and the commands.
"""

from ldpbeam.sums.group_file import read_groups
from ldpbeam.sums.question import Cumulative, Groups, Mean, Quantiles, Question
from ldpbeam.sums.tables import answers

__all__ = ["Cumulative", "Groups", "Mean", "Quantiles", "Question", "answers", "read_groups"]
