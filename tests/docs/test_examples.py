"""The commands of docs/examples.md exist, with the options and files that it gives them.

What they do is tested where they run: tests/browser/test_web_example.py, tests/examples/.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from ldpbeam.cli.main import cli
from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.file import load_collection
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "examples.md").read_text("utf-8")
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```console\n(.*?)^```\n", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def test_commands_of_ldpbeam_parse_and_their_files_exist() -> None:
    found = [words[1:] for words in COMMANDS if words[0] == "ldpbeam"]
    assert [words[0] for words in found] == ["collect", "run"]
    for name, *arguments in found:
        cli.commands[name].make_context(name, arguments)
    for word in (word for words in COMMANDS for word in words):
        assert not word.startswith("examples/") or (REPOSITORY / word).is_file(), word
    (target,) = (words[1] for words in COMMANDS if words[0] == "make")
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.thorough
def test_examples_take_the_options() -> None:
    found = [words[1:] for words in COMMANDS if words[0] == "python" and words[1] != "-m"]
    assert [words[0] for words in found] == ["examples/agent/histogram.py", "examples/agent/agent.py"]
    for script, *arguments in found:
        command = [sys.executable, script, "--help"]
        known = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        assert {option for option in arguments if option.startswith("--")} <= set(
            re.findall(r"--[a-z]+", known)
        )


def test_the_page_has_the_definition_of_its_collection() -> None:
    """If the collection was changed: ldpbeam definition collection.yaml --output definition.json."""
    web = REPOSITORY / "examples" / "web"
    fresh = device_definition_text(load_collection(web / "collection.yaml"))
    assert (web / "definition.json").read_text("ascii") == fresh
