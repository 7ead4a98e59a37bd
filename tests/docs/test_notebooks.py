"""The notebooks keep what their cells put out, which is what they put out now; and they are Python alone."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

FOLDER = REPOSITORY / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ENVIRONMENT = REPOSITORY / ".venv-notebooks"
TIME = re.compile(r"\b\d+(\.\d+)? (s|ms|µs)\b")
SHELL = {"subprocess", "os", "pty", "sh"}
named = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> list[Any]:
    """What a cell puts out, without times; the parts of a stream, which come as they come, are one."""
    found: list[Any] = []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            text = TIME.sub("… \\2", "".join(output["text"]))
            if found and found[-1][0] == output["name"]:
                found[-1] = (output["name"], found[-1][1] + text)
            else:
                found.append((output["name"], text))
        else:
            data = output.get("data", output)
            found.append((output["output_type"], {kind: "".join(data[kind]) for kind in sorted(data)}))
    return found


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["features", "parameters", "year"]


@named
def test_every_output_is_kept_and_none_is_an_error(notebook: Path) -> None:
    assert [cell["execution_count"] for cell in cells(notebook)] == list(range(1, len(cells(notebook)) + 1))
    outputs = [output for cell in cells(notebook) for output in cell["outputs"]]
    assert len(outputs) >= 3
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert {output["name"] for output in outputs if output["output_type"] == "stream"} == {"stdout"}
    text = notebook.read_text("utf-8")
    assert str(REPOSITORY) not in text
    assert not re.search(r"0x[0-9a-f]{6,}", text)


@named
def test_it_is_python_alone(notebook: Path) -> None:
    """No shell, no magic: every cell parses, and imports nothing that starts a process."""
    imported = set()
    for cell in cells(notebook):
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert "ldpbeam" in imported
    assert not imported & SHELL


@named
@pytest.mark.notebooks
def test_the_outputs_are_those_of_today(notebook: Path, tmp_path: Path) -> None:
    made = tmp_path / notebook.name
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "tests.docs.execute", str(notebook), str(made)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    for kept, new in zip(cells(notebook), cells(made), strict=True):
        assert shown(new) == shown(kept), "".join(kept["source"])


def test_times_are_left_out_and_nothing_else() -> None:
    stream = {"output_type": "stream", "name": "stdout"}
    one = {"outputs": [stream | {"text": ["took 1.2 s\n", "a 3\n"]}]}
    two = {"outputs": [stream | {"text": ["took 31 s\n"]}, stream | {"text": ["a 3\n"]}]}
    assert shown(one) == shown(two)
    three = {"outputs": [stream | {"text": ["took 31 s\n", "a 4\n"]}]}
    assert shown(one) != shown(three)
