"""``ldpbeam definition`` prints one JSON document, or writes it."""

from __future__ import annotations

import json
from pathlib import Path

from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY
from tests.ldpbeam.cli.calling import told

FILE = REPOSITORY / "examples" / "minutes_in_app.yaml"


def test_it_is_printed_as_one_document_or_written(tmp_path: Path) -> None:
    text, target = device_definition_text(load_collection(FILE)), tmp_path / "minutes.json"
    assert told("definition", FILE) == told("definition", FILE, "--json") == text
    printed = json.loads(told("definition", FILE, "--output", target, "--json"))
    assert printed == {"definition": str(target), "digest": "d763b721438b2148"}
    assert target.read_text("ascii") == text
