"""The command ``report``: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from ldpbeam.cli.shared.console import PrintingCommand, complain, deliver, say
from ldpbeam.errors import UsageError


@click.command(cls=PrintingCommand)
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--page", type=click.Path(path_type=Path), help="The page. Default: OUTPUT/index.html.")
@click.option("--truth", type=click.Path(path_type=Path), help="truth.parquet of a simulation.")
def report(output: Path, page: Path | None, truth: Path | None) -> None:
    """Write the page of a finished run: one file, no server, nothing fetched from elsewhere."""
    from ldpbeam.records.run_record import RUN_RECORD
    from ldpbeam.report_page.document import write_page

    if not (output / RUN_RECORD).is_file():
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{output} holds no run.json, so no run has finished there",
            remedy="Give the directory that was --output of a run.",
        )
    if truth is not None:
        _require_truth(truth)
    problems: list[str] = []
    written = write_page(output, page or output / "index.html", truth, problems.append)
    for problem in problems:
        complain(f"{output}: {problem} The page shows the rest. [W-RUN-DAMAGED]")
    say(f"open {written}")
    deliver({"page": str(written), "problems": problems})


def _require_truth(path: Path) -> None:
    """Raise UsageError for another file than the truth: its page would look like one with the truth."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if {"epoch", "value", "frequency"} <= set(pq.read_schema(path).names):
            return
    except (pa.ArrowException, OSError):
        pass
    raise UsageError(
        "E-USAGE-RESULTS",
        f"{path} is not the truth of a simulation",
        remedy="Give the truth.parquet that ldpbeam simulate --truth has written, or leave out --truth.",
    )
