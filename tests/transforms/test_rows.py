"""Rows say what the values say that they are made of, and back again."""

from __future__ import annotations

from collections import Counter

import pytest

from ldpbeam.accounting import Account
from ldpbeam.errors import Reason
from ldpbeam.reports import Rejection
from ldpbeam.transforms.rows import account_rows, as_dict, rejected_row, rejection_of


@pytest.mark.parametrize(
    "rejection",
    [
        Rejection(Reason.MALFORMED, "here", 7),
        Rejection(Reason.TRUNCATED, "file", -1, 3, 5, "d763b721438b2148", 9, 11, "It is cut."),
        Rejection(Reason.UNSUPPORTED_FORMAT, "file", -1, detail="It is a picture."),
    ],
)
def test_a_rejection_survives_its_row(rejection: Rejection) -> None:
    row = rejected_row(rejection)
    assert rejection_of(row) == rejection
    assert row.explanation == rejection.explanation
    assert as_dict(row)["index"] == rejection.index
    assert as_dict(row)["count"] == rejection.count


def test_an_account_adds_up_from_its_rows() -> None:
    """Repeated records are among the rejected ones, and would be counted twice by whoever adds up."""
    account = Account(read=20, counted=9, late=1, duplicate=2, rejected=Counter(malformed=8), repeated=5)
    rows = list(account_rows("name", "d763b721438b2148", None, 1, 3, account))
    found = {row.what: row.records for row in rows}
    assert found == {"read": 20, "counted": 9, "late": 1, "duplicate": 2, "rejected.malformed": 8}
    assert {row[:5] for row in rows} == {("name", "d763b721438b2148", None, 1, 3)}
