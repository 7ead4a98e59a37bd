"""The page as a whole: one HTML file.

It is made from what a run wrote (run.json, estimates/*.parquet, and truth.parquet in simulations)
and from nothing else. It names no outside address, can be read without JavaScript, and has fixed caps
(`Detail.of`), so that it stays below two megabytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import jinja2
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from ldpbeam.durable.file import PUBLIC, write_file
from ldpbeam.errors import disk_errors
from ldpbeam.records.run_record import RunRecord
from ldpbeam.report_page.accounting_section import identity
from ldpbeam.report_page.data import Run, load
from ldpbeam.report_page.glosses import glosses
from ldpbeam.report_page.parts import LISTED, SECTIONS, Detail
from ldpbeam.report_page.text import count, duration
from ldpbeam.report_page.view import Section
from ldpbeam.text import plural

_SCRIPTS = ("tooltip.js", "explorer.js")
_ADDRESS = re.compile(r"https?:|://", re.IGNORECASE)

_STATUS = {0: ("", ""), 4: ("warn", ", some reports rejected"), 5: ("bad", ", over the error threshold")}
"""Colour, and what an exit code adds to how a run ended."""

_STREAM = {
    "running": "stream still running when this page was written{}",
    "stopped": "stream stopped{}; it goes on when it is started again",
}


def write_page(
    output_dir: Path,
    page: Path,
    truth: Path | None = None,
    problem: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the report of a run to a file; an existing file is replaced whole."""
    octets = render(Path(output_dir), truth, problem)
    page = Path(page)
    with disk_errors(str(page)):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_file(page, [octets], PUBLIC)
    return page


def render(
    output_dir: Path,
    truth: Path | None = None,
    problem: Callable[[str], None] = lambda _: None,
) -> bytes:
    run = load(output_dir, truth)
    for line in run.problems:
        problem(line)
    return _html(run).encode("utf-8")


def _html(run: Run) -> str:
    record, shown = run.record, run.collections[:SECTIONS]
    rest = [data.title for data in run.collections[SECTIONS:]]
    digests = [data.digest for data in shown]
    detail = Detail.of(len(shown))
    with debug_mode(False):  # no check against the schema at every step: a third of the time
        sections = [
            Section(data, record, detail, f"c{index}", again=data.digest in digests[:index])
            for index, data in enumerate(shown)
        ]
    names = [section.name for section in sections]
    resources = files(__package__)
    script = "".join((resources / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((resources / "page.html.j2").read_text(encoding="utf-8"))
    html = template.render(
        title=f"{', '.join(names[:3]) or 'no collections'} – ldpbeam run report",
        status=_status(record),
        problems=_shown(run.problems, 10),
        contents=names if len(names) > 1 else [],
        sections=sections,
        more=_shown(rest, LISTED),
        simulated=run.simulated,
        glosses=glosses(
            (data.size for data in run.collections if not data.mean), record.accounting.total.rejected
        ),
        whole=_whole(record),
        record=list(_record(record)),
        style=Markup((resources / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # A label may spell an address. Written like this it is shown the same and names none.
    return _ADDRESS.sub(lambda match: match[0].replace(":", "&#58;").replace("/", "&#47;"), html)


def _status(record: RunRecord) -> dict[str, str]:
    """How the run ended: a stream never finishes, it is stopped."""
    code, status = record.exit_code, record.status
    ended = _STREAM.get(status, "stream").format(_reached(record)) if record.stream else "finished"
    kind, more = _STATUS.get(code, ("bad", f", {status or 'failed'}"))
    if not record.accounting.total.counted:
        kind, more = "bad", ", nothing was counted"
    return {"kind": kind, "text": f"{ended}{more}" + (f" (exit code {code})" if code else "")}


def _reached(record: RunRecord) -> str:
    """Up to which moment a stream has everything: its watermark."""
    micros = record.stream.watermark_micros if record.stream else 0
    if micros <= 0:
        return ""
    return f" at {datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def _shown(lines: Sequence[str], limit: int) -> list[str]:
    rest = len(lines) - limit
    return [*lines[:limit], *([f"and {plural(rest, 'more line')}"] if rest > 0 else [])]


def _whole(record: RunRecord) -> str:
    """The accounting of the whole run in one line, as the command line prints it."""
    line = f"Whole run: {identity(record.accounting.total, record.stream is not None)}"
    rest = record.accounting.unattributed
    if rest.read:
        line += f"; {count(rest.read)} of them belong to no known collection and epoch"
    return line + "."


def _record(record: RunRecord) -> Iterator[tuple[str, str]]:
    yield "Runner", record.runner or "unknown"
    yield "Versions", " · ".join(f"{k} {v}" for k, v in list(record.versions.items())[:30])
    timings = record.timings
    yield "Time", duration(timings.total_seconds)
    if timings.reports_per_second is not None:
        yield "Speed", f"{count(round(timings.reports_per_second))} reports per second"
    yield (
        "Inputs and files",
        f"{count(len(record.inputs))} read, {count(len(record.files))} written: run.json",
    )
    for one in record.collections[:40]:
        words = [f"digest {one.digest}", *(f"{k} {v}" for k, v in list(one.parameters.items())[:20])]
        words.append(f"lateness {duration(one.allowed_lateness_seconds)}")
        yield f"Collection {one.name}", " · ".join(words)
