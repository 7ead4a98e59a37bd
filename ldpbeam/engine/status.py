"""What a running engine is doing, for people who are not there: numbers for Prometheus, lines of JSON.

The engine makes a :class:`Status` after every step; whoever asks gets the last one. Nothing here holds the
engine up, and nothing of a report, nor of a payload, is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from ldpbeam.host.http import QuietHandler, listening
from ldpbeam.host.prometheus import CONTENT_TYPE, family, single, text


def _metric(name: str, kind: str, meaning: str, default: Any = 0) -> Any:
    """A number that Prometheus knows as ``ldpbeam_NAME``; what a replay can take back is a gauge."""
    return field(default=default, metadata={"name": f"ldpbeam_{name}", "kind": kind, "meaning": meaning})


@dataclass(frozen=True)
class Status:
    """Numbers with their meaning; over all engines on the output, where nothing else is said."""

    pulled: int = _metric("messages_pulled_total", "counter", "Messages pulled since the start.")
    landed: int = _metric("messages_landed_total", "counter", "Messages safe on disk since the start.")
    published: int = _metric("results_published_total", "counter", "Results published since the start.")
    read: int = _metric("reports_read", "gauge", "Reports read, over all engines on this output.")
    counted: int = _metric("reports_counted", "gauge", "Reports in the newest results.")
    late: int = _metric("reports_late", "gauge", "Reports that arrived after their epoch had closed.")
    duplicate: int = _metric("reports_duplicate", "gauge", "Repeats of report ids.")
    pending: int = _metric("reports_pending", "gauge", "Reports read and in no result yet.")
    open_epochs: int = _metric("epochs_open", "gauge", "Epochs with reports that take more.")
    segments: int = _metric("landing_segments", "gauge", "Rows of landed reports on disk.")
    watermark: float = _metric("watermark_timestamp_seconds", "gauge", "No older message is expected.", 0.0)
    lag: float = _metric(
        "watermark_lag_seconds", "gauge", "Seconds by which the watermark is behind the time.", 0.0
    )
    clock_ahead: float = _metric(
        "clock_ahead_seconds", "gauge", "Seconds by which the clock is not believed.", 0.0
    )
    rejected: dict[str, int] = field(default_factory=dict)  # by reason
    connected: bool = True  # whether the broker answers, or the watched folder can be read

    def as_record(self) -> dict[str, Any]:
        """All fields by name, for a line of JSON; reasons of rejections in alphabetical order."""
        return {**vars(self), "rejected": dict(sorted(self.rejected.items()))}

    def as_text(self) -> str:
        """All fields in the text format of Prometheus, with their kinds and meanings."""
        lines: list[str] = []
        for each in fields(self):
            if about := each.metadata:
                lines += single(about["name"], about["kind"], about["meaning"], getattr(self, each.name))
        refused = [({"reason": reason}, n) for reason, n in sorted(self.rejected.items())]
        lines += family("ldpbeam_reports_rejected", "gauge", "Reports refused, by reason.", refused)
        lines += single("ldpbeam_connected", "gauge", "Whether the source can be read.", int(self.connected))
        return text(lines)


@contextmanager
def serve_metrics(address: tuple[str, int], status: Callable[[], Status]) -> Iterator[int]:
    """Answer ``GET /metrics`` for the duration of a block; gives the port."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the library's name
            if self.path.partition("?")[0] == "/metrics":
                self.send(200, status().as_text().encode(), {"Content-Type": CONTENT_TYPE})
            else:
                self.send(404, b"see /metrics\n", {"Content-Type": "text/plain; charset=utf-8"})

    with listening(address, Handler, "--metrics") as port:
        yield port
