"""The files in accounting/: their bytes stay, and reading one gives back what was written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ldpbeam.accounting import Account
from ldpbeam.durable.document import document
from ldpbeam.errors import LdpError
from ldpbeam.histogram import EpochHistogram
from ldpbeam.transforms.sinks.accounting import (
    EpochAccounting,
    Revision,
    UnattributedAccounting,
    newest_number,
    numbers_file_name,
    read_accounting,
    read_all_accounting,
    read_epoch_accounting,
    write_accounting,
)
from ldpbeam.transforms.sinks.file_record import FileRecord
from tests.pipelines.running import collection

AGREED = collection("grr", 3, "numbered")

ACCOUNT = Account(30, 22, 1, 2, Counter({"malformed": 3, "bad_payload": 1}), 1)
SIGN = {"indicator": "range", "attribute": "", "found": 0.25, "expected": 0.0, "p_value": 1.0, "alarm": False}
TABLE = FileRecord("estimates/numbered-r000.parquet", 9796, "b4eb", 3)
FIRST = Revision(0, "early", 22, "", "3a71", "job", [SIGN], TABLE)
SECOND = Revision(1, "late", 22, "too_many_errors", "bdf2", "", [], None)
EPOCH = EpochAccounting.of_histogram(
    AGREED,
    EpochHistogram(AGREED.digest, 12, 22, (), account=ACCOUNT, closed=False, position={"segment": 4}),
    (FIRST, SECOND),
)
OTHER = UnattributedAccounting("ab", Account(read=5, rejected=Counter({"retired_collection": 5})), "job")

EPOCH_FILE = """{
 "schema": "ldpbeam.epoch/1",
 "collection": "numbered",
 "version": 1,
 "digest": "0da37abc5df87aa0",
 "epoch": 12,
 "epoch_start": "1970-01-01T12:00:00Z",
 "epoch_end": "1970-01-01T13:00:00Z",
 "closes": "1970-01-01T13:00:00Z",
 "closed": false,
 "accounting": {
  "read": 30,
  "counted": 22,
  "late": 1,
  "duplicate": 2,
  "rejected": {
   "bad_payload": 1,
   "malformed": 3
  },
  "repeated": 1,
  "pending": 1
 },
 "error_fraction": 0.103448276,
 "revisions": [
  {
   "revision": 0,
   "pane": "early",
   "n": 22,
   "withheld": "",
   "content": "3a71",
   "job": "job",
   "indicators": [
    {
     "indicator": "range",
     "attribute": "",
     "found": 0.25,
     "expected": 0.0,
     "p_value": 1.0,
     "alarm": false
    }
   ],
   "file": "estimates/numbered-r000.parquet",
   "bytes": 9796,
   "sha256": "b4eb",
   "rows": 3
  },
  {
   "revision": 1,
   "pane": "late",
   "n": 22,
   "withheld": "too_many_errors",
   "content": "bdf2",
   "indicators": [],
   "file": null
  }
 ],
 "position": {
  "segment": 4
 }
}
"""

OTHER_FILE = """{
 "schema": "ldpbeam.other/1",
 "digest": "ab",
 "job": "job",
 "accounting": {
  "read": 5,
  "rejected": {
   "retired_collection": 5
  }
 }
}
"""


@pytest.mark.parametrize(
    ("accounting", "name", "content"),
    [
        (EPOCH, "numbered-0da37abc5df87aa0-epoch-000012.json", EPOCH_FILE),
        (OTHER, "other-ab-job.json", OTHER_FILE),
    ],
)
def test_the_file_has_these_lines_and_a_digest(
    accounting: EpochAccounting | UnattributedAccounting, name: str, content: str, tmp_path: Path
) -> None:
    made = write_accounting(str(tmp_path), accounting)
    assert made.path == f"accounting/{name}"
    digest = json.loads((tmp_path / made.path).read_text())["sha256"]
    assert (tmp_path / made.path).read_text() == f'{content[:-3]},\n "sha256": "{digest}"\n}}\n'
    assert read_accounting(str(tmp_path / made.path)) == accounting


def test_all_of_them_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for each in (OTHER, EPOCH):
        write_accounting(str(tmp_path), each)
    (tmp_path / "accounting" / "numbered-0da37abc5df87aa0-epoch-000013.revision").write_text("{}")
    (tmp_path / "accounting" / "folder.json").mkdir()
    assert list(read_all_accounting(str(tmp_path))) == [EPOCH, OTHER]
    assert [each.key for each in (EPOCH, OTHER)] == [("0da37abc5df87aa0", 12), ("ab", None)]
    assert read_epoch_accounting(str(tmp_path), AGREED, 12) == EPOCH
    assert read_epoch_accounting(str(tmp_path), AGREED, 13) is None


@pytest.mark.parametrize("key", ["schema", "revisions"])
def test_a_file_that_lacks_a_key_is_named(key: str, tmp_path: Path) -> None:
    record = EPOCH.as_record()
    del record[key]
    path = tmp_path / write_accounting(str(tmp_path), EPOCH).path
    path.write_bytes(document(record))
    with pytest.raises(LdpError, match="the accounting is not what was written") as caught:
        read_accounting(str(path))
    assert (caught.value.code, caught.value.where) == ("E-RUN-DAMAGED", str(path))


@pytest.mark.parametrize("content", ["", "[]", '{"revision": "x", "content": "", "job": ""}'])
def test_a_damaged_number_is_named_and_no_other_is_given(content: str, tmp_path: Path) -> None:
    path = tmp_path / numbers_file_name(AGREED, 12)
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(LdpError, match=r"epoch-000012\.revision.*E-RUN-DAMAGED"):
        newest_number(str(tmp_path), AGREED, 12)
