"""The one self-contained HTML page that `ldpbeam demo` and `ldpbeam report` write.

It is made from what a run wrote (run.json, estimates/*.parquet, and truth.parquet in simulations)
and from nothing else. It names no outside address, can be read without JavaScript, and stays
below `PAGE_LIMIT` bytes by showing less where there is more than fits.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpbeam.errors import disk_error
from ldpbeam.pipelines.page.text import count, duration, integer, number, plural, size

if TYPE_CHECKING:
    from ldpbeam.pipelines.page.account import Account
    from ldpbeam.pipelines.page.data import Run
    from ldpbeam.pipelines.page.parts import Detail, Table

__all__ = ["PAGE_LIMIT", "write_page"]

PAGE_LIMIT = 2_000_000
"""The largest page, in bytes."""

_ADDRESS = re.compile(r"https?:|://", re.IGNORECASE)

_STATUS = {
    0: ("", ""),
    4: ("warn", ", some reports rejected"),
    5: ("bad", ", over the error threshold"),
}
"""Colour, and what an exit code adds to how a run ended."""

_STREAM = {
    "running": "stream still running when this page was written",
    "stopped": "stream stopped; it goes on when it is started again",
}


def write_page(output_dir: Path, page: Path, truth: Path | None = None) -> Path:
    """Write the report of the run in `output_dir` to the file `page`, and return `page`.

    Args:
        output_dir: Directory that `ldpbeam run --output` wrote: `run.json` and `estimates/`.
        page: The HTML file; parent directories are made, an existing file is replaced whole.
        truth: `truth.parquet` of `ldpbeam simulate --truth`, to draw the truth and the error.

    Raises:
        LdpError: the disk is full or may not be written to; an existing page is then as it was.
    """
    from ldpbeam.pipelines.page.data import load
    from ldpbeam.pipelines.page.parts import LEVELS

    run = load(Path(output_dir), truth)
    for detail in LEVELS:
        if detail is not LEVELS[-1] and _expected(run, detail) > PAGE_LIMIT:
            continue  # drawing it all only to throw it away takes seconds
        octets = _html(run, detail).encode("utf-8")
        if len(octets) <= PAGE_LIMIT:
            break
    else:
        raise ValueError(f"The page of {output_dir} does not fit into {PAGE_LIMIT:,} bytes.")
    page = Path(page)
    partial = page.with_name(f".{page.name}.{os.getpid()}.part")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(octets)
        partial.replace(page)
    except OSError as error:
        raise disk_error(error, str(page)) or error from None
    finally:
        with suppress(OSError):
            partial.unlink()
    return page


def _expected(run: Run, detail: Detail) -> int:
    """Roughly the bytes that a page of so much detail takes; a little too few rather than many."""
    octets = 0
    for data in run.collections[: detail.sections]:
        epochs = min(len(data.epochs), detail.epochs)
        values = len(data.last.values) if data.last else 0
        octets += 60_000 + 2_500 * epochs
        octets += 180 * min(values, detail.rows) + 450 * min(values, detail.bins)
    return octets


def _html(run: Run, detail: Detail) -> str:
    """Render the page with so much detail."""
    import jinja2
    from altair.utils.schemapi import debug_mode
    from markupsafe import Markup

    from ldpbeam.pipelines.page.view import Writer

    with debug_mode(False):  # no check against the schema at every step: a third of the time
        shown = run.collections[: detail.sections]
        digests = [data.digest for data in shown]
        sections = [
            Writer(
                data,
                run.books.of(data.digest),
                detail,
                f"c{index}",
                books=data.digest not in digests[:index],
                rest=run.books.unattributed if data.alone else None,
                record=run.record,
            ).section()
            for index, data in enumerate(shown)
        ]
    names = [section.name for section in sections]
    resources = files(__package__)
    script = (resources / "tooltip.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((resources / "page.html.j2").read_text(encoding="utf-8"))
    html = template.render(
        title=f"{', '.join(names[:3]) or 'no collections'} – ldpbeam run report",
        status=_status(run.record, run.books.total),
        complaints=_shown(run.books.complaints, 10),
        problems=_shown(run.problems, 10),
        contents=names if len(names) > 1 else [],
        sections=sections,
        more=_more(run, detail),
        simulated=run.simulated,
        whole=_whole(run.books.total, run.books.unattributed),
        record=_record(run.record),
        record_tables=_record_tables(run.record, detail),
        style=Markup((resources / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # A label may spell an address. Written like this it is shown the same and names none.
    return _ADDRESS.sub(lambda found: found[0].replace(":", "&#58;").replace("/", "&#47;"), html)


def _status(record: Mapping[str, Any], total: Account | None) -> dict[str, str]:
    """How the run ended: a stream never finishes, it is stopped."""
    code, status = number(record.get("exit_code")), str(record.get("status") or "")
    if code is None:
        return {"kind": "warn", "text": status or "status unknown"}
    ended = _STREAM.get(status, "stream") if "stream" in record else "finished"
    kind, more = _STATUS.get(int(code), ("bad", f", {status or 'failed'}"))
    if total is not None and not total.counted:
        kind, more = "bad", ", nothing was counted"
    return {"kind": kind, "text": f"{ended}{more}" + (f" (exit code {int(code)})" if code else "")}


def _shown(lines: Sequence[str], limit: int) -> list[str]:
    rest = len(lines) - limit
    return [*lines[:limit], *([f"and {plural(rest, 'more line')}"] if rest > 0 else [])]


def _whole(total: Account | None, rest: Account | None) -> str:
    """The accounting of the whole run in one line, as the command line prints it."""
    if total is None:
        return ""
    line = f"Whole run: {total.identity}"
    if rest is not None and rest.read:
        line += f"; {count(rest.read)} of them belong to no known collection and epoch"
    return line + "."


def _record(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line of the run record."""
    versions, timings = record.get("versions"), record.get("timings")
    lines = [("Runner", str(record.get("runner") or "unknown"))]
    if isinstance(versions, Mapping):
        lines.append(("Versions", " · ".join(f"{k} {v}" for k, v in list(versions.items())[:30])))
    if isinstance(timings, Mapping):
        total, rate = (
            number(timings.get("total_seconds")),
            number(timings.get("reports_per_second")),
        )
        if total is not None:
            lines.append(("Time", duration(total)))
        if rate is not None:
            lines.append(("Speed", f"{count(round(rate))} reports per second"))
    for item in _mappings(record.get("collections"))[:40]:
        parameters = item.get("parameters")
        pairs = parameters.items() if isinstance(parameters, Mapping) else ()
        words = [f"digest {item.get('digest')}", *(f"{k} {v}" for k, v in list(pairs)[:20])]
        late = number(item.get("allowed_lateness_seconds"))
        if late is not None:
            words.append(f"lateness {duration(late)}")
        lines.append((f"Collection {item.get('name')}", " · ".join(words)))
    return lines


def _record_tables(record: Mapping[str, Any], detail: Detail) -> list[Table]:
    """The inputs and files of the run."""
    from ldpbeam.pipelines.page.parts import Table, shortened

    inputs, written = _mappings(record.get("inputs")), _mappings(record.get("files"))
    rows = detail.rows
    tables = []
    if inputs:
        tables.append(
            Table(
                title=f"Table: {plural(len(inputs), 'input')}",
                head=["input"],
                rows=[[str(item.get("path"))] for item in inputs[:rows]],
                note=shortened(len(inputs), min(rows, len(inputs)), "input", "first"),
            )
        )
    if written:
        tables.append(
            Table(
                title=f"Table: {plural(len(written), 'file')} written",
                head=["file", "SHA-256", "size", "rows"],
                rows=[
                    [
                        str(item.get("path")),
                        str(item.get("sha256") or ""),
                        size(integer(item.get("bytes"))),
                        count(integer(item.get("rows"))),
                    ]
                    for item in written[:rows]
                ],
                names=2,
                note=shortened(len(written), min(rows, len(written)), "file", "first"),
            )
        )
    return tables


def _more(run: Run, detail: Detail) -> Table | None:
    """The collections that got no section, in one table."""
    from ldpbeam.pipelines.page.parts import Table

    rest = run.collections[detail.sections :]
    if not rest:
        return None
    return Table(
        title=f"Table: {plural(len(rest), 'further collection')}",
        head=["collection", "protocol", "epochs", "reports"],
        rows=[
            [
                data.title,
                str(data.config.get("protocol") or ""),
                count(len(data.epochs)),
                count(sum(epoch.n for epoch in data.epochs)),
            ]
            for data in rest[: detail.rows]
        ],
        names=2,
        note=f"The first {detail.sections} collections are drawn; these did not fit.",
    )


def _mappings(raw: object) -> list[Mapping[str, Any]]:
    return [item for item in raw if isinstance(item, Mapping)] if isinstance(raw, list) else []
