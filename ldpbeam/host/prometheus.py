"""Numbers as Prometheus reads them: the text that the local engine and the collector answer with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""


def family(
    name: str, kind: str, meaning: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> list[str]:
    """Lines of one metric."""
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{content}"' for label, content in labels.items())
        lines.append(f"{name}{{{inside}}} {_number(value)}")
    return lines


def single(name: str, kind: str, meaning: str, value: float) -> list[str]:
    return [*family(name, kind, meaning, ()), f"{name} {_number(value)}"]


def _number(value: float) -> str:
    """A count as it is, a measure to the thousandth."""
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
