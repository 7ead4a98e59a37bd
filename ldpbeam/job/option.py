"""How an option of ``ldpbeam run`` is declared: beside the field that it fills (ldpbeam/job/config.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class OptionKind(Enum):
    TEXT = "text"
    TEXTS = "texts"
    FLAG = "flag"
    COUNT = "count"
    FRACTION = "fraction"
    DURATION = "duration"
    INSTANT = "instant"


class Over(Enum):
    """What an option says something about: it has no effect on anything else."""

    ALL = "all"
    FILES = "files"
    MESSAGES = "messages"
    LOCAL = "messages that this machine reads itself"


_TEMPLATE_LACKS = {Over.FILES: "of runs over files", Over.LOCAL: "of the local engine"}


@dataclass(frozen=True)
class Option:
    help: str  # for ``--help``
    kind: OptionKind = OptionKind.TEXT  # what its value is
    metavar: str | None = None  # how the value is called there
    names: str = ""  # how the option is spelt, as click takes it; empty for the name of its field
    over: Over = Over.ALL  # what it says something about
    required: bool = False  # whether it must be given
    shown: bool = False  # whether ``--help`` shows the default
    least: int = 1  # of a count
    most: int | None = None  # of a count; None for no bound
    not_in_template: str = ""  # why a Dataflow template does not have it; empty where it does

    def spelt(self, name: str) -> str:
        return self.names or f"--{name.replace('_', '-')}"

    @property
    def template_lacks(self) -> str:
        return self.not_in_template or _TEMPLATE_LACKS.get(self.over, "")


def set_by(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 - as click calls it
    return field(default=default, metadata={"option": Option(help, **more)})


def flag(help: str, **more: Any) -> Any:  # noqa: A002
    return set_by(False, help, kind=OptionKind.FLAG, **more)


def count(default: int, help: str, **more: Any) -> Any:  # noqa: A002
    """A field for a whole number, whose default ``--help`` shows."""
    return set_by(default, help, kind=OptionKind.COUNT, shown=True, **more)


def duration(default: float | None, help: str, **more: Any) -> Any:  # noqa: A002
    """A field for seconds, typed as a duration; ``--help`` shows a default that is not 0 or None."""
    return set_by(default, help, kind=OptionKind.DURATION, metavar="DURATION", shown=bool(default), **more)
