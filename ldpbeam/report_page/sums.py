"""The cumulative curve of the last epoch, of estimates that are added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.record import collection_of
from ldpbeam.errors import CollectionError
from ldpbeam.estimates import CONFIDENCE
from ldpbeam.estimation.quantiles import isotonic, quantile
from ldpbeam.over_time.significance import normal_limit
from ldpbeam.report_page.curve import QUANTILES, CurveText, curve_figure, drawn_places
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Snapshot
from ldpbeam.report_page.parts import Detail, Figure
from ldpbeam.report_page.text import count, share
from ldpbeam.sums.quantity import cumulative
from ldpbeam.sums.series import errors_of_sums

MOST = 512
"""Values of a curve: beyond, it would take the page seconds."""

_TEXT = CurveText(
    "",
    "The band holds all of the curve in at least 95 of 100 cases.",
    "raw, added up",
    "95 % band of the curve",
)


@dataclass(frozen=True)
class AddedUp:
    """What the page shows of sums; no figure where the values are too many."""

    note: str
    figure: Figure | None


def added_up(data: CollectionData, detail: Detail, name: str) -> AddedUp | None:
    """The sums of the last epoch that has estimates; None where there is nothing to add up."""
    snapshot, definition = data.last, data.collection.definition
    if data.distribution:
        return None  # the curve is the result itself
    if definition is None or snapshot is None or data.mean or not np.isfinite(snapshot.estimate).all():
        return None
    try:
        collection = collection_of(definition)
    except CollectionError:
        return None
    domain = dict(collection.histograms).get(data.histogram.attribute)
    if domain is None or not domain.has_order or domain.size != len(snapshot.values):
        return None
    if domain.size > MOST:
        note = f"Curves are drawn of up to {count(MOST)} values; ldpbeam export --cumulative has this one."
        return AddedUp(note, None)
    note = "Sums of raw estimates, with the errors that sums have; all values add up to 1."
    return AddedUp(note, _curve(data, snapshot, collection, domain, detail, name))


def _curve(
    data: CollectionData,
    snapshot: Snapshot,
    collection: Collection,
    domain: Domain,
    detail: Detail,
    name: str,
) -> Figure:
    """The share of the devices at each value or below it, with a band for all of them at once."""
    sums, k = cumulative(domain), domain.size
    errors = errors_of_sums(collection, data.histogram.attribute, sums)
    estimate = sums.estimate(snapshot.estimate)
    error = np.sqrt(errors.variance(snapshot.estimate[None], snapshot.reports[None])[0])
    truth = np.cumsum(snapshot.truth)
    together, z = normal_limit(1 - (1 - CONFIDENCE) / k), normal_limit(CONFIDENCE)
    rows = []
    for at in drawn_places(k, detail.bins):
        middle, scale = float(estimate[at]), float(error[at])
        text = f"up to {snapshot.labels[at]}: {share(middle, scale or None)}"
        rows.append(
            {
                "place": int(snapshot.values[at]),
                "estimate": middle,
                "low": middle - together * scale,
                "high": middle + together * scale,
                "truth": float(truth[at]),
                "text": text + (f" ± {share(z * scale, scale)}" if scale else ""),
            }
        )
    rising = isotonic(estimate)
    marks = [(part, *quantile(rising, estimate, error, part, z)) for part in QUANTILES]
    return curve_figure(data, snapshot, rows, marks, _TEXT, name)
