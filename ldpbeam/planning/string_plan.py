"""What a collection of strings finds, tells and costs, before there is any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import duration, instant
from ldpbeam.collection.file import parse_collection
from ldpbeam.estimation.prefix_walk import MOST_CANDIDATES
from ldpbeam.planning.collection_check import promised
from ldpbeam.planning.needs import USUAL_EPOCHS, USUAL_LEVEL
from ldpbeam.planning.strings import lengths_drawn, planned, smallest_found, strings_found
from ldpbeam.promise.statements import bits
from ldpbeam.protocols.prefixes import Prefixes
from ldpbeam.text import plural

_SECONDS_PER_LOOK = 1e-9
"""Of one core: a candidate's symbol under a function, and the count that it points to."""


@dataclass(frozen=True)
class StringNeeds:
    """What is asked of strings; levels as in :class:`ldpbeam.planning.needs.Needs`."""

    max_length: int
    alphabet: str
    devices: int
    epochs: int = USUAL_EPOCHS
    longitudinal: float | None = None
    first: float | None = None

    @property
    def protocol(self) -> str:
        """Protocol and levels, as lines of a collection file: of a single epoch nothing needs a memo."""
        level = self.longitudinal or max(USUAL_LEVEL, 2 * (self.first or 0.0))
        if self.epochs == 1:
            return f"protocol: olh\nepsilon: {min(level, self.first or level)!r}\n"
        return (
            f"protocol: loloha\nepsilon_longitudinal: {level!r}\nepsilon_first: {self.first or level / 2!r}\n"
        )


@dataclass(frozen=True)
class StringPlan:
    """A collection that finds strings, with the file that says it."""

    needs: StringNeeds
    text: str
    collection: Collection

    @classmethod
    def of(cls, needs: StringNeeds, name: str, epoch: int, start: int) -> StringPlan:
        text = (
            f"# Strings: planned for {needs.devices:,} devices and {needs.epochs:,} epochs.\n"
            f"name: {name}\nversion: 1\n"
            f"domain: {{strings: {{max_length: {needs.max_length}, symbols: {needs.alphabet}}}}}\n"
            f"{needs.protocol}"
            f"epoch: {{length: {duration(epoch)}, origin: {instant(start)}, count: {needs.epochs}}}\n"
            "# Devices send a report at once (spread=0), and again when they next run where that failed.\n"
            f"allowed_lateness: {duration(max(86400, epoch))}\n"
        )
        return cls(needs, text, parse_collection(text, "the planned collection"))

    @property
    def protocol(self) -> Prefixes:
        protocol = self.collection.protocol
        assert isinstance(protocol, Prefixes)  # noqa: S101 - the domain has strings
        return protocol

    @cached_property
    def found(self) -> tuple[float, float]:
        """See :func:`ldpbeam.planning.strings.smallest_found`."""
        return smallest_found(self.protocol, self.needs.devices)

    @property
    def looks(self) -> float:
        """Of a server at its counts, if as many strings are frequent as can have the smallest share."""
        candidates = planned(self.protocol).expected_candidates(min(self.found[0], 1.0))
        return self.protocol.estimator.level.family.functions * sum(
            min(one, MOST_CANDIDATES) for one in candidates
        )

    def lines(self) -> Iterator[str]:
        needs = self.needs
        levels = ", ".join(needs.protocol.splitlines()[1:]).replace(": ", " = ")
        payload = bits(self.protocol.device.payload_bits)
        epochs = plural(needs.epochs, "epoch")
        yield f"strings of up to {needs.max_length} symbols ({needs.alphabet}), {epochs}"
        yield f"{self.collection.protocol_label} at {levels}, {payload} per report"
        yield f"with {needs.devices:,} devices: {strings_found(*self.found)}"
        yield lengths_drawn(self.protocol)
        yield from promised(self.collection)
        yield (
            f"An epoch costs a server at most about {self.looks:.1g} looks at its counts (candidates × "
            f"functions), {self.looks * _SECONDS_PER_LOOK:.1g} s of a core."
        )

    def as_record(self) -> dict[str, Any]:
        strings = self.protocol.strings
        return {
            "schema": "ldpbeam.plan/1",
            "result": self.protocol.RESULT.value,
            "devices": self.needs.devices,
            "epochs": self.needs.epochs,
            "smallest_share": self.found[0] if isfinite(self.found[0]) else None,
            "lengths": list(strings.lengths),
            "whole_strings": float(self.protocol.share),
            "bits": self.protocol.device.payload_bits,
            "looks": self.looks,
            "says": list(self.lines()),
        }
