"""What a step remembers of a key besides its bag, and the two timers that wake it up."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from ldpbeam.errors import LdpError
from ldpbeam.schedule import Schedule

NEVER: int = MIN_TIMESTAMP.micros
"""A time before all others."""

STATE_VERSION = 2
"""Of the fields of both steps. A field with a default may come without a new version."""

_State = TypeVar("_State")


def read_state(cell: Any, kind: type[_State]) -> _State:
    """The state of a key; the defaults of ``kind`` for a key that was never seen.

    Raises:
        LdpError: it was written in another format.
    """
    kept = cell.read()
    if kept is None:
        return kind()
    found = json.loads(kept)
    version = found.get("version", 1)
    if version != STATE_VERSION:
        raise LdpError(
            "E-STATE-VERSION",
            f"{kind.__name__} has state format {version}, this version reads {STATE_VERSION}",
            remedy="Run the job to its end with the version that started it, or start a new job.",
        )
    return kind(**{f.name: found[f.name] for f in fields(kind) if f.name in found})  # type: ignore[arg-type]


def write_state(cell: Any, state: Any) -> None:
    """What :func:`read_state` reads: JSON by field name, since state outlives the code that wrote it."""
    cell.write(json.dumps({"version": STATE_VERSION, **vars(state)}).encode())


def wake_up(schedule: Schedule, at: int, due: Any, watch: Any) -> None:
    """Set the timer of a key, and one interval later the timer that stands in should a runner lose the first.

    Called with every element and every firing, so that whatever was lost is set again. Both timers do the
    same, and nothing when there is nothing to do.

    Args:
        schedule: of the collection; its interval for late results is the distance of the two.
        at: microseconds of event time.
        due, watch: timers.
    """
    due.set(Timestamp(micros=at))
    watch.set(Timestamp(micros=at + schedule.late_every * 1_000_000))
