"""Generated tables of docs/privacy.md about what a whole life of a device tells."""

from __future__ import annotations

from ldpbeam.protocols import FrequencyProtocol, Parameters, protocol
from ldpbeam.shuffling.randomiser import many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon

__all__ = ["BLOCKS"]

_BOTH = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}


def _error(name: str, **levels: object) -> float:
    kind = protocol(name, 360, Parameters(**levels))  # type: ignore[arg-type]
    assert isinstance(kind, FrequencyProtocol)
    return float(kind.estimator.support.floor / kind.estimator.support.sampled)


def _shown(error: float) -> str:
    return f"{error:.3g}" if error < 1000 else f"{error:,.0f}"


def few_reports() -> str:
    """N·V* of one epoch of T, where all that a device sends in its life is to stay within ε."""
    head = ["ε for life", "T", "1 of T", "2 of T", "T of T", "`loloha`, g = 2, cap ε (renamed values only)"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for epsilon in (2.0, 4.0):
        memo = _error("loloha", epsilon_longitudinal=epsilon / 2, epsilon_first=epsilon / 4, g=2)
        for of in (32, 365):
            few = [_error("oue", epsilon=epsilon / m) * of / m for m in (1, 2, of)]
            cells = [f"{epsilon:g}", str(of), *map(_shown, [*few, memo])]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shuffled() -> str:
    """Central ε at 1e-9 for fleets of several sizes."""
    rows = (
        ("`grr`, k = 10", "grr", 10, {"epsilon": 1.0}),
        ("`olh`, g = 3", "olh", 360, {"epsilon": 1.0, "g": 3}),
        ("`l_grr`, k = 10", "l_grr", 10, _BOTH),
        ("`l_osue`, k = 3", "l_osue", 3, _BOTH),
        ("`l_osue`, k = 360", "l_osue", 360, _BOTH),
        ("`loloha`, g = 3, 728 functions", "loloha", 360, {**_BOTH, "g": 3}),
    )
    head = ["protocol, ε or ε1 = 1", "one epoch, n = 10⁴", "10⁵", "10⁶", "30 epochs, any changes, 10⁵"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for label, name, k, levels in rows:
        kind = protocol(name, k, Parameters(**levels))  # type: ignore[arg-type]
        once, often = one_epoch(kind), many_epochs(kind)
        cells = ["–" if once is None else f"{central_epsilon(once, n):.3g}" for n in (10**4, 10**5, 10**6)]
        cells.append("–" if often is None else f"{central_epsilon(often, 10**5, 30):.3g}")
        lines.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(lines)


BLOCKS = {"few-reports": few_reports, "shuffled": shuffled}
