"""Values added up: groups of values, and the cumulative curve of the last epoch with its quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.record import collection_of
from ldpbeam.errors import CollectionError, UsageError
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.quantiles import isotonic, quantile
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.records.run_record import RunRecord
from ldpbeam.report_page import charts
from ldpbeam.report_page.curve import QUANTILES, CurveText, curve_figure, drawn_places
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Floats, Snapshot
from ldpbeam.report_page.parts import Detail, Figure, Key, Table, distinct, shortened
from ldpbeam.report_page.text import LABEL_LIMIT, count, share
from ldpbeam.sums.group_file import read_groups, shared_values
from ldpbeam.sums.quantity import Sums, cumulative, of_groups
from ldpbeam.sums.series import errors_of_sums
from ldpbeam.text import clean, plural

MOST = 512
"""Values of a curve: beyond, it would take the page seconds."""


_GROUP_HEAD = ("group", "values", "share", "±", "95 % low", "95 % high")


@dataclass(frozen=True)
class AddedUp:
    """What the page shows of sums."""

    note: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class SumsQuestion:
    """What is known about the collections of a run, and which groups of values are asked for."""

    collections: Mapping[str, Collection] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], dict[str, list[int]]] = field(default_factory=dict)


def described(record: RunRecord | None, output_dir: Path, group_file: Path | None) -> SumsQuestion:
    """The collections of a run's record, and the groups of a file for every attribute that has its values.

    Args:
        record: of the run; None where there is none.
        output_dir: what the run has written, for the error.
        group_file: lists groups of values; None where nobody asks for any.

    Raises:
        UsageError: the file has groups of none of the attributes; what is wrong with the first one.
    """
    collections: dict[str, Collection] = {}
    with suppress(CollectionError):  # it cannot be made again; those before it can
        for recorded in () if record is None else record.collections:
            if recorded.definition is not None:
                collections[recorded.digest] = collection_of(recorded.definition)
    if group_file is None:
        return SumsQuestion(collections)
    groups, why = {}, None
    for digest, collection in collections.items():
        for attribute, domain in collection.histograms:
            try:
                groups[digest, attribute] = read_groups(group_file, domain)
            except UsageError as error:
                why = why or error
    if not groups:
        raise why or UsageError(
            "E-USAGE-GROUPS",
            "the run's record describes no collection, so nothing says which values there are",
            where=str(output_dir),
            remedy="Run again, or leave out --group.",
        )
    return SumsQuestion(collections, groups)


def added_up(data: CollectionData, asked: SumsQuestion, detail: Detail, name: str) -> AddedUp | None:
    """The sums of the last epoch that has estimates; None where there is nothing to add up."""
    collection, snapshot = asked.collections.get(data.digest), data.last
    if data.distribution:
        return None  # the curve is the result itself
    if collection is None or snapshot is None or data.mean or not np.isfinite(snapshot.estimate).all():
        return None
    domain = dict(collection.histograms).get(data.histogram.attribute)
    groups = asked.groups.get((data.digest, data.histogram.attribute))
    if domain is None or domain.size != len(snapshot.values):
        return None
    drawing = _Drawing(data, snapshot, collection, domain, detail, name)
    figures, notes = [], []
    if groups is not None:
        figures.append(drawing.of_groups(groups))
    if domain.has_order and domain.size <= MOST:
        figures.append(drawing.curve())
    elif domain.has_order:
        notes.append(
            f"Curves are drawn of up to {count(MOST)} values; ldpbeam export --cumulative has this one."
        )
    if not figures and not notes:
        return None
    notes.insert(0, "Sums of raw estimates, with the errors that sums have; all values add up to 1.")
    return AddedUp(" ".join(notes), figures)


@dataclass(frozen=True)
class _Drawing:
    """Draws the sums of one snapshot."""

    data: CollectionData
    snapshot: Snapshot
    collection: Collection
    domain: Domain
    detail: Detail
    name: str

    def _estimated(self, sums: Sums) -> tuple[Floats, Floats]:
        """Estimates and standard errors, (sums,) each."""
        errors = errors_of_sums(self.collection, self.data.histogram.attribute, sums)
        variance = errors.variance(self.snapshot.estimate[None], self.snapshot.reports[None])
        return sums.estimate(self.snapshot.estimate), np.sqrt(variance[0])

    def _row(self, text: str, estimate: float, half: float, truth: float) -> charts.Row:
        return {
            "estimate": estimate,
            "low": estimate - half,
            "high": estimate + half,
            "truth": truth,
            "text": text,
        }

    def of_groups(self, groups: Mapping[str, Sequence[int]]) -> Figure:
        """A bar for each group, and a table."""
        sums = of_groups(self.domain, groups)
        estimate, error = self._estimated(sums)
        truth = sums.weights @ self.snapshot.truth
        z, simulated = normal_limit(CONFIDENCE), self.snapshot.simulated
        shown = min(len(groups), self.detail.marks)
        rows, lines = [], []
        names = [clean(one, LABEL_LIMIT) for one in sums.names]
        unique = distinct(names)
        for at, label in enumerate(names):
            half, scale = z * float(error[at]), float(error[at])
            text = f"{label}: {share(float(estimate[at]), scale)} ± {share(half, scale)}"
            known = [share(float(truth[at]), scale)] if simulated else []
            row = self._row(text, float(estimate[at]), half, float(truth[at]))
            rows.append({**row, "name": unique[at]})
            limits = [share(float(estimate[at]) + side * half, scale) for side in (-1, 1)]
            first = [label, count(sums.values[at]), share(float(estimate[at]), scale), share(half, scale)]
            lines.append([*first, *limits, *known])
        sentence = f"{plural(len(groups), 'group')} of values, as the file of groups lists them."
        both = shared_values({one: list(values) for one, values in groups.items()})
        if both is not None:
            sentence += (
                f" {clean(both[0], LABEL_LIMIT)} and {clean(both[1], LABEL_LIMIT)} have values in common."
            )
        keys = [Key("dot", charts.RAW, "share of the devices"), Key("line", charts.RAW, "95 % interval")]
        return Figure.of(
            charts.bars(rows[:shown], "~%"),
            f"{self.name}-groups",
            f"{self.data.dates.title(self.snapshot.epoch)}: groups of values",
            sentence,
            keys=[*keys, *([Key("tick", charts.TRUTH, "truth")] if simulated else [])],
            table=Table(
                title=f"Table: epoch {self.snapshot.epoch} by group",
                head=[*_GROUP_HEAD, *(["truth"] if simulated else [])],
                rows=lines[: self.detail.rows],
                note=shortened(len(lines), self.detail.rows, "group", "first"),
            ),
        )

    def curve(self) -> Figure:
        """The share of the devices at each value or below it, with a band for all of them at once."""
        sums = cumulative(self.domain)
        estimate, error = self._estimated(sums)
        truth, k = np.cumsum(self.snapshot.truth), self.domain.size
        together, z = normal_limit(1 - (1 - CONFIDENCE) / k), normal_limit(CONFIDENCE)
        rows = []
        for at in drawn_places(k, self.detail.bins):
            scale = float(error[at])
            text = f"up to {self.snapshot.labels[at]}: {share(float(estimate[at]), scale or None)}"
            text += f" ± {share(z * scale, scale)}" if scale else ""
            row = self._row(text, float(estimate[at]), together * scale, float(truth[at]))
            rows.append({**row, "place": int(self.snapshot.values[at])})
        rising = isotonic(estimate)
        marks = [(part, *quantile(rising, estimate, error, part, z)) for part in QUANTILES]
        words = CurveText(
            "",
            "The band holds all of the curve in at least 95 of 100 cases.",
            "raw, added up",
            "95 % band of the curve",
        )
        return curve_figure(self.data, self.snapshot, rows, marks, words, self.name)
