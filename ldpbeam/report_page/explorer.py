"""All epochs of a collection as JSON, and the last one by slice, for the choice of one; pages without
JavaScript leave it out.

Of too many values those with the largest estimates on average are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ldpbeam.collection.slices import slice_text
from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Ints, Snapshot
from ldpbeam.report_page.text import count, decimals
from ldpbeam.text import clean, plural

_SLICES = 200
"""So many slices can be chosen: those of single labels, and combinations."""

_LABEL, _ROW = 240, 48
"""Octets of the label of a value, and of its numbers in one epoch, at most."""


@dataclass(frozen=True)
class Explorer:
    epochs: str
    note: str


def explorer(data: CollectionData, withheld: Mapping[int, str], octets: int) -> Explorer | None:
    """The estimates of all epochs, in about so many octets; None where not all epochs are in memory."""
    snapshots = [data.in_memory[epoch] for epoch in sorted(data.in_memory)]
    if not snapshots or len(snapshots) < len(data.epochs) or not any(one.usable for one in snapshots):
        return None
    codes = np.unique(np.concatenate([one.values for one in snapshots]))
    sums = np.zeros(len(codes))
    labels: dict[int, str] = {}
    for one in snapshots:
        sums[np.searchsorted(codes, one.values)] += np.nan_to_num(one.estimate)
        labels.update(zip(one.values.tolist(), one.labels, strict=True))
    last = data.last.epoch if data.last else snapshots[0].epoch
    slices = list(data.read_slices(last, codes[:1].tolist()))[:_SLICES]
    room = octets // (_LABEL + _ROW * (len(snapshots) + len(slices)))
    kept = np.sort(codes[np.argsort(-sums, kind="stable")[:room]])
    if not len(kept):
        return None
    about: dict[str, Any] = {
        "values": [[code, labels[code]] for code in kept.tolist()],
        "columns": ["estimate", "±", "consistent", *(["truth"] if data.truth is not None else [])],
        "unit": "" if data.mean else " %",
        "chosen": [one.epoch for one in snapshots].index(last),
        "epochs": [_epoch(data, one, kept, withheld) for one in snapshots],
    }
    read = data.read_slices(last, kept.tolist()) if slices else {}
    for slice_ in slices:
        why = {} if read[slice_].usable else {last: "too few reports"}
        entry = _epoch(data, read[slice_], kept, why)
        about["epochs"].append(entry | {"slice": clean(slice_text(slice_))})
    note = (
        f"Of {plural(len(codes), 'value')} the {count(len(kept))} with the largest estimates on average; "
        "the rest is in the Parquet files."
    )
    text = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    return Explorer(text, note if len(kept) < len(codes) else "")


def _epoch(data: CollectionData, one: Snapshot, kept: Ints, withheld: Mapping[int, str]) -> dict[str, Any]:
    """Its name in the list, a sentence, and for each value its numbers to two digits of their error."""
    mark = ", provisional" if one.provisional else ", withheld" if one.epoch in withheld else ""
    notes = [f"{plural(one.n, 'report')}."]
    if one.epoch in withheld:
        notes.append(f"Its estimates are withheld: {withheld[one.epoch]}.")
    if one.provisional:
        notes.append("Provisional: it was not over, so the numbers will change.")
    factor = 1 if data.mean else 100
    errors = one.std_error[np.isfinite(one.std_error) & (one.std_error > 0)]
    digits = decimals(float(np.median(errors)) * factor if len(errors) else 0.01 * factor)
    columns = [one.estimate, (one.high - one.low) / 2, one.consistent]
    columns += [one.truth] if data.truth is not None else []
    numbers = np.full((len(kept), len(columns)), np.nan)
    listed = np.isin(one.values, kept)
    numbers[np.searchsorted(kept, one.values[listed])] = np.stack(columns, axis=1)[listed] * factor
    return {
        "name": f"{data.dates.title(one.epoch)}{mark}",
        "note": " ".join(notes),
        "digits": digits,
        "rows": [
            [round(cell, digits) if isfinite(cell) else None for cell in row] for row in numbers.tolist()
        ],
    }
