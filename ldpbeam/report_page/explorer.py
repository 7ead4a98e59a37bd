"""All epochs of a collection in a few octets, for the choice of one; pages without JavaScript leave it out.

What is kept is what the tables show: estimates to two digits of their standard error, as whole numbers in
compressed JSON. Of too many values those with the largest estimates on average are kept.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ldpbeam.report_page.data import CollectionData
from ldpbeam.report_page.estimates import Snapshot
from ldpbeam.report_page.text import count, decimals
from ldpbeam.text import plural


@dataclass(frozen=True)
class Explorer:
    """The compressed epochs in base 64, and what they leave out."""

    packed: str
    note: str


def explorer(data: CollectionData, withheld: Mapping[int, str], octets: int) -> Explorer | None:
    """Pack the estimates of all epochs into text."""
    snapshots = [data.in_memory[epoch] for epoch in sorted(data.in_memory)]
    if not snapshots or len(snapshots) < len(data.epochs) or not any(one.usable for one in snapshots):
        return None
    codes = _ranked(snapshots)

    def pack(values: int) -> str:
        return _packed(data, snapshots, withheld, np.sort(codes[:values]))

    wanted, packed = len(codes), pack(len(codes))
    if len(packed) > octets:
        fixed, whole = len(pack(1)), len(packed)
        if fixed > octets:
            return None
        wanted = int(wanted * (octets - fixed) / (whole - fixed))
        while len(packed := pack(max(wanted, 1))) > octets:  # large values compress worse than small ones
            wanted = int(wanted * 0.9)
        wanted = max(wanted, 1)
    note = ""
    if wanted < len(codes):
        note = (
            f"Of {plural(len(codes), 'value')} the {count(wanted)} with the largest estimates on average; "
            "the rest is in the Parquet files."
        )
    return Explorer(packed, note)


def _ranked(snapshots: Sequence[Snapshot]) -> np.ndarray:
    """All values, the largest on average first."""
    codes = np.unique(np.concatenate([one.values for one in snapshots]))
    sums = np.zeros(len(codes))
    for one in snapshots:
        sums[np.searchsorted(codes, one.values)] += np.nan_to_num(one.estimate)
    return np.asarray(codes[np.argsort(-sums, kind="stable")])


def _packed(
    data: CollectionData, snapshots: Sequence[Snapshot], withheld: Mapping[int, str], codes: np.ndarray
) -> str:
    names = ["estimate", "±", "consistent", *(["truth"] if data.truth is not None else [])]
    cells: list[list[list[int | None]]] = [[] for _ in names]
    epochs: list[dict[str, Any]] = []
    labels: dict[int, str] = {}
    chosen = 0
    for place, one in enumerate(snapshots):
        listed = np.isin(one.values, codes)
        where = np.searchsorted(codes, one.values[listed])
        unit = _unit(one, 1 if data.mean else 100)
        columns = [one.estimate, (one.high - one.low) / 2, one.consistent, one.truth]
        for column, numbers in enumerate(columns[: len(names)]):
            known = np.full(len(codes), np.nan)
            known[where] = numbers[listed] / unit
            cells[column].append([round(one) if isfinite(one) else None for one in known.tolist()])
        if data.last is not None and one.epoch == data.last.epoch:
            chosen = place
        for code, label in zip(
            one.values[listed].tolist(), np.array(one.labels)[listed].tolist(), strict=True
        ):
            labels.setdefault(code, label)
        epochs.append(_epoch(data, one, unit, withheld))
    about = {
        "epochs": epochs,
        "values": [[code, labels.get(code, "")] for code in codes.tolist()],
        "columns": names,
        "percent": not data.mean,
        "chosen": chosen,
    }
    text = json.dumps({**about, "cells": cells}, ensure_ascii=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _epoch(data: CollectionData, one: Snapshot, unit: float, withheld: Mapping[int, str]) -> dict[str, Any]:
    """What is said of an epoch: its name in the list, and a sentence."""
    mark = ", provisional" if one.provisional else ", withheld" if one.epoch in withheld else ""
    notes = [f"{plural(one.n, 'report')}."]
    if one.epoch in withheld:
        notes.append(f"Its estimates are withheld: {withheld[one.epoch]}.")
    if one.provisional:
        notes.append("Provisional: it was not over, so the numbers will change.")
    return {
        "epoch": one.epoch,
        "start": data.dates.text(one.epoch),
        "name": f"{data.dates.title(one.epoch)}{mark}",
        "note": " ".join(notes),
        "unit": unit,
    }


def _unit(one: Snapshot, factor: int) -> float:
    """The step that shows two digits of the standard error."""
    errors = one.std_error[np.isfinite(one.std_error) & (one.std_error > 0)]
    scale = float(np.median(errors)) if len(errors) else 0.01
    return float(10.0 ** -decimals(scale * factor)) / factor
