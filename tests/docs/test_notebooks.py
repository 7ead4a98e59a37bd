"""The notebooks keep what their cells put out, which is what they put out now; and they are Python alone."""

from __future__ import annotations

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
