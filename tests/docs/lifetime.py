"""Generated tables of docs/privacy.md about what a whole life of a device tells."""

from __future__ import annotations

from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol

__all__ = ["BLOCKS"]


def _error(name: str, **levels: object) -> float:
    kind = protocol(name, 360, Parameters(**levels))  # type: ignore[arg-type]
    assert isinstance(kind, FrequencyProtocol)
    return float(kind.support.floor / kind.support.sampled)


def _shown(error: float) -> str:
    return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"


def few_reports() -> str:
    """N·V* of one epoch of T, where all that a device sends in its life is to stay within ε."""
    head = ["ε for life", "T", "1 of T", "2 of T", "T of T", "`loloha`, g = 2, cap ε (renamed values only)"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for epsilon in (2.0, 4.0):
        memo = _error("loloha", epsilon_longitudinal=epsilon / 2, epsilon_first=epsilon / 4, g=2)
        for of in (8, 32, 365):
            few = [_error("oue", epsilon=epsilon / m) * of / m for m in (1, 2, of)]
            cells = [f"{epsilon:g}", str(of), *map(_shown, [*few, memo])]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


BLOCKS = {"few-reports": few_reports}
