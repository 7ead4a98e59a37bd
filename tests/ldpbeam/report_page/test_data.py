"""The numbers behind the page: accounting, significance, rounding."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from ldpbeam.accounting import Account
from ldpbeam.records.run_record import EpochRecord
from ldpbeam.report_page import accounting_section, data, estimates, parts, text
from ldpbeam.text import plural
from tests.ldpbeam.report_page.synthetic import DIGEST, Fake, write_run

BALANCED = {"read": 10, "counted": 6, "late": 1, "duplicate": 1, "rejected": {"malformed": 2}}


@pytest.mark.parametrize(
    ("read", "stream", "left"), [(10, False, 0), (10, True, 0), (11, False, 1), (11, True, 0), (9, True, -1)]
)
def test_the_identity_holds_or_is_complained_about(read: int, stream: bool, left: int) -> None:
    """What a stream has read and not booked is pending; nobody may book what was not read."""
    account = Account.from_record({**BALANCED, "read": read})
    assert accounting_section.unexplained(account, stream) == left
    line = accounting_section.identity(account, stream)
    assert f"read {read} {'≠' if left else '='} counted 6 + late 1 + duplicate 1 + rejected 2" in line
    assert line.endswith(" + pending 1 (their epochs are not over)") == (stream and read == 11)


def test_epochs_share_bars_from_the_first_one_on() -> None:
    account = Account.from_record(BALANCED)
    epochs = [EpochRecord("a", DIGEST, epoch, None, account, "") for epoch in range(4, 9)]
    detail = parts.Detail(rows=9, epochs=9, bins=9, marks=2)
    counted, _ = accounting_section.figures(epochs, accounting_section.Marks(), detail, "c0")
    said = re.findall(r'data-says="([^"]*)"', str(counted.chart))
    assert said == ["epoch 4 to epoch 6: 18 counted", "epoch 7 to epoch 8: 12 counted"]
    assert counted.sentence.endswith("Each bar is the sum of 3 epochs.")


def test_the_values_followed_are_those_that_stand_out(tmp_path: Path) -> None:
    class Spike(Fake):
        def frequencies(self, epoch: int) -> np.ndarray:
            frequency = np.full(self.k, 1.0)
            frequency[7] = 6.0  # stands out all the time
            frequency[23] = 5.0 if epoch >= 5 else 0.1  # changes
            return frequency / frequency.sum()

    output, _ = write_run(tmp_path, [Spike(k=50, epochs=10, n=300_000)])
    (collection,) = data.load(output).collections
    assert set(collection.ranked[:2]) == {7, 23}
    _, jump, change = collection.standing[23]
    assert jump > 10
    assert change > 0.05


def test_a_value_absent_from_the_truth_has_frequency_zero(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "truth.parquet"
    rows = {"epoch": [1, 0, 0], "value": [2, 5, 1], "frequency": [0.5, 0.25, 0.75]}
    pq.write_table(pa.table(rows), path)
    truth = estimates.Truth(path)
    values = np.array([0, 1, 5, 9])
    assert truth.at(0, values).tolist() == [0.0, 0.75, 0.25, 0.0]
    assert truth.below(0, values) == pytest.approx([0, 0.75, 1, 1])
    for nothing in (truth.at(7, values), truth.below(7, values)):
        assert np.isnan(nothing).all()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.share(-0.0001, 0.0048), "−0.01 %"),
        (text.share(math.nan, 0.1), "–"),
        (text.share(1 / 360), "0.278 %"),
        (text.power(0.0), "0"),
        (text.duration(21600), "6 h"),
        (text.duration(3.2), "3.2 s"),
        (plural(1200, "epoch"), "1,200 epochs"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_mean_something(shown: str, expected: str) -> None:
    assert shown == expected


def test_untrusted_text_shows_what_it_is_at_any_depth() -> None:
    assert text.clean_tree({"\x1b": ["\ud800", 1, None]}) == {"\ufffd": ["\ufffd", 1, None]}
