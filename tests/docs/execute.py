"""Execute a notebook and write it with what its cells put out: ``python -m tests.docs.execute FROM TO``.

It runs in the environment of `make notebooks`, which has Jupyter; the tests start it from theirs. The cells
run in an empty folder, and times, counters and addresses of objects are not kept.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

SECONDS = 1200
"""For one cell, on a machine that does much else."""


def execute(source: Path, target: Path) -> None:
    """Run all cells in their order; an error of a cell ends it."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            record_timing=False,
            coalesce_streams=True,  # what comes in several parts on a busy machine is one output
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, target)


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))
