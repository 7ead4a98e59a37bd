"""Which epochs a device reports, as docs/wire.md has it: the same cases as for the client in TypeScript."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
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
from tests.ldpbeam.client.devices import state_of

CASES = json.loads((Path(__file__).parent / "order" / "cases.json").read_text("utf-8"))["cases"]
DAY = 86400


def answer_of(
    report: Callable[[], bytes | None], left: dict[tuple[int, int], bytes], asked: tuple[int, int]
) -> str:
    """An error's code, or whether the report is new; ``left`` has all so far, by collection and epoch."""
    try:
        made = report()
    except DeviceError as error:
        return error.code
    assert made is not None
    answer = "again" if left.get(asked) == made else "new"
    assert answer == "again" or asked not in left, "a second report of an epoch"
    left[asked] = made
    return answer


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
        report = partial(device.report, number % 11, step.get("epoch"))
        asked = which, step.get("epoch", epochs.index(now))
        assert answer_of(report, left, asked) == step["answer"], step
        if "spans" in step:
            (entry,) = (
                one for one in state_of(device).collections if one.digest == collections[which].full_digest
            )
            assert [[one.first_epoch, one.last_epoch] for one in entry.spans] == step["spans"]
        if "due" in step:
            assert sorted(one.epoch for one in device.outbox.waiting() if one.due <= now) == step["due"]
