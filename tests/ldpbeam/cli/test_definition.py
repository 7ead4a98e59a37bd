"""``ldpbeam definition`` prints one JSON document, or writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY

FILE = REPOSITORY / "examples" / "minutes_in_app.yaml"


def call(*arguments: object) -> str:
    done = CliRunner().invoke(cli, ["definition", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("mode", [(), ("--json",)])
def test_it_is_printed_as_one_document(mode: tuple[str, ...]) -> None:
    assert call(FILE, *mode) == device_definition_text(load_collection(FILE))


def test_it_is_written_where_asked(tmp_path: Path) -> None:
    target = tmp_path / "minutes.json"
    printed = json.loads(call(FILE, "--output", target, "--json"))
    assert printed == {"definition": str(target), "digest": "d763b721438b2148"}
    assert target.read_text("ascii") == device_definition_text(load_collection(FILE))
