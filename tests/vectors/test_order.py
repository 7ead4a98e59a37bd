"""Which epochs a device reports, as docs/wire.md has it: the same cases as for the client in TypeScript."""

from __future__ import annotations

import json
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import pytest

from ldpbeam.client import Device
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.errors import DeviceError
from ldpbeam.protocols import Parameters

CASES = json.loads((Path(__file__).parent / "order" / "cases.json").read_text("utf-8"))["cases"]
DAY = 86400


@pytest.mark.parametrize("memo", ["derived", "stored"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_device_reports_the_epochs_of_the_case(
    case: dict[str, Any], memo: Literal["derived", "stored"], tmp_path: Path
) -> None:
    """A device for each step, so that the state has all that it needs; the value differs, so a draw shows."""
    epochs = Epochs(case["length"], 0, 5000 * DAY // case["length"])
    collections = [
        Collection("o", version, Domain(11), "grr", Parameters(epsilon=1.0), epochs) for version in (1, 2)
    ]
    left: dict[tuple[int, int], bytes] = {}
    for number, step in enumerate(case["steps"]):
        which, now = step.get("collection", 0), step["clock"]
        device = Device.open(
            collections[which],
            tmp_path,
            memo=memo,
            max_jump=step.get("max_jump", 400 * DAY),
            clock=repeat(now).__next__,
        )
        asked = step.get("epoch", epochs.index(now))
        try:
            report = device.report(number % 11, step.get("epoch"))
        except DeviceError as error:
            answer = error.code
        else:
            assert report is not None
            answer = "again" if left.get((which, asked)) == report else "new"
            assert answer == "again" or (which, asked) not in left, "a second report of an epoch"
            left[which, asked] = report
        assert answer == step["answer"], step
        if "spans" in step:
            (entry,) = (
                one
                for one in device._store.load().collections
                if one.digest == collections[which].full_digest
            )
            assert [[one.first_epoch, one.last_epoch] for one in entry.spans] == step["spans"]
        if "due" in step:
            assert sorted(one.epoch for one in device.outbox.waiting() if one.due <= now) == step["due"]
