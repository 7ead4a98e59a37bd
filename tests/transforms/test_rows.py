"""Rows say what the values say that they are made of, and back again."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pyarrow as pa
import pytest
from apache_beam.typehints.arrow_type_compatibility import arrow_schema_from_beam_schema
from apache_beam.typehints.schemas import named_tuple_to_schema
from apache_beam.utils.timestamp import Timestamp

from ldpbeam.accounting import Account
from ldpbeam.admission import Rejection
from ldpbeam.errors import Reason
from ldpbeam.transforms.rows import ROWS, account_rows, as_dict, rejected_row, rejection_of


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


@pytest.mark.parametrize("row", ROWS)
def test_every_column_has_a_type_that_all_languages_know(row: Any) -> None:
    """Not Beam's for any object of Python; and a type of Arrow, but for instants, which Beam has none for."""
    schema = named_tuple_to_schema(row)
    named = {field.name: field.type.logical_type.urn for field in schema.fields}
    instants = {name for name in row._fields if row.__annotations__[name] is Timestamp}
    assert {name for name, urn in named.items() if urn} == instants
    assert {named[name] for name in instants} <= {"beam:logical_type:millis_instant:v1"}
    rest = [field for field in schema.fields if field.name not in instants]
    del schema.fields[:]
    schema.fields.extend(rest)
    arrow = arrow_schema_from_beam_schema(schema)
    assert arrow.names == [name for name in row._fields if name not in instants]
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    for field in arrow:
        annotated = row.__annotations__[field.name]
        if field.name == "slice":
            assert (field.type.key_type, field.type.item_type) == (pa.string(), pa.string())
            continue
        assert field.nullable == (annotated not in kinds), field.name
        assert field.type == kinds[get_args(annotated)[0] if field.nullable else annotated], field.name
