"""docs/wire.md: its golden bytes are those of the Python device too; nothing of a definition is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ldpbeam.client.derivation import Purpose
from ldpbeam.client.report_draws import DerivedDraws
from ldpbeam.client.sender import VERDICTS
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.values import value_of
from ldpbeam.wire import device_state_pb2
from tests.conftest import REPOSITORY
from tests.docs import wire
from tests.narrow import present
from tests.reference import derived
from tests.vectors import definitions
from tests.vectors.derived import report

PAGE = (REPOSITORY / "docs" / "wire.md").read_text("utf-8")
GOLDEN = {
    "minutes_in_app",
    "loloha_affine",
    "loloha_interval",
    "l_grr",
    "l_osue",
    "dbitflip_pm",
    "strings_loloha",
}
ALL = dict(definitions.collections())


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_golden_bytes_are_those_of_the_client(name: str) -> None:
    """The page's come from the standard library's HMAC and the core's protocols."""
    agreed = ALL[name]
    value = value_of(agreed, wire.TEXT if agreed.protocol.SEVERAL else wire.VALUE)
    drawn = DerivedDraws(agreed, wire.SECRET).report(value, wire.EPOCH, device_state_pb2.DeviceMemo())
    sent = report(agreed, drawn, wire.EPOCH)
    assert sent == wire.Drawn(agreed).message.hex()
    assert sent in _bytes_of(PAGE)


def _bytes_of(page: str) -> list[str]:
    """The hexadecimal bytes of each block's report."""
    found = []
    for block in re.findall(r"^report .*?(?=^sending|^```)", page, re.MULTILINE | re.DOTALL):
        lines = [re.match(r"(?:[0-9a-f]{2}(?: |$))*", line[17:]) for line in block.splitlines()]
        found.append("".join(line[0].replace(" ", "") for line in lines if line))
    return found


def test_every_purpose_has_its_number() -> None:
    rows = re.findall(r"^\| (\d), ([a-z ]+) \|", PAGE, re.MULTILINE)
    named = {name.upper().replace(" ", "_"): int(number) for number, name in rows}
    assert named == {one.name: int(one) for one in Purpose}
    own = {
        name: getattr(derived, name) for name in ("ONCE", "PERMANENT", "FRESH", "REPORT_ID", "SENDING_TIME")
    }
    assert own.items() <= named.items()


def test_the_page_and_all_clients_drop_reports_for_the_same_reasons() -> None:
    row = next(line for line in PAGE.splitlines() if "| drops it:" in line)
    for file in ("js/src/outbox.ts", "rust/ldpbeam-device/src/sender.rs"):
        source = (REPOSITORY / "clients" / file).read_text("utf-8")
        listed = present(re.search(r"const VERDICTS\b[^=]* =[^\[]*\[(.*?)\]", source, re.DOTALL))
        assert set(re.findall(r'"(\w+)"', listed[1])) == VERDICTS
    assert set(re.findall(r"`(\w+)`", row)) - {"reason"} == VERDICTS


def keys(value: Any) -> Iterator[str]:
    """Every field of a definition, at any depth."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from keys(one)


@pytest.mark.parametrize("agreed", ALL.values(), ids=list(ALL))
def test_every_field_encoding_and_protocol_is_described(agreed: Collection) -> None:
    definition = json.loads(device_definition_text(agreed))
    words = set(re.findall(r"`(\w+)`", PAGE))
    protocol = definition["protocol"]
    assert set(keys(definition)) <= words
    parts = protocol.get("parts", [protocol.get("level", protocol)])
    assert {protocol["encoding"], *(part["encoding"] for part in parts)} <= words
    assert {part["name"] for part in parts} <= words
