"""The public transforms: reports in, frequencies of every epoch out, as steps of any Beam pipeline.

    from ldpbeam.transforms import FrequenciesPerEpoch

    rows = messages | FrequenciesPerEpoch("collection.yaml")

A name is looked up at its first use. Importing one of them registers the coders of all elements between the
steps. docs/beam.md is the guide. The parts of the transforms are in ``stages`` (one module per stage),
``stateful`` (the same for streams), ``sources`` and ``sinks``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ == "transforms":
    raise ImportError(
        "transforms is a folder of the repository and a part of the package ldpbeam: "
        "import ldpbeam.transforms."
    )

if TYPE_CHECKING:
    from .admit import AdmitReports, Admitted
    from .count import Counted, CountSupport
    from .estimate import Estimated, EstimateFrequencies
    from .frequencies import FrequenciesPerEpoch, Results
    from .read import ReadReports
    from .rows import AccountRow, FrequencyRow, RejectedRow, SummaryRow, arrow_schema, as_dict
    from .window import WindowByEpoch

_HOMES = {
    "AccountRow": "rows",
    "AdmitReports": "admit",
    "Admitted": "admit",
    "CountSupport": "count",
    "Counted": "count",
    "EstimateFrequencies": "estimate",
    "Estimated": "estimate",
    "FrequenciesPerEpoch": "frequencies",
    "FrequencyRow": "rows",
    "ReadReports": "read",
    "RejectedRow": "rows",
    "Results": "frequencies",
    "SummaryRow": "rows",
    "WindowByEpoch": "window",
    "arrow_schema": "rows",
    "as_dict": "rows",
}
"""Public names, and the modules of this folder that define them."""

__all__ = [
    "AccountRow",
    "AdmitReports",
    "Admitted",
    "CountSupport",
    "Counted",
    "EstimateFrequencies",
    "Estimated",
    "FrequenciesPerEpoch",
    "FrequencyRow",
    "ReadReports",
    "RejectedRow",
    "Results",
    "SummaryRow",
    "WindowByEpoch",
    "arrow_schema",
    "as_dict",
]


def __getattr__(name: str) -> Any:
    """Look a public name up where it is defined; the first one loads Beam and registers the coders."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(f"{__name__}.coders").register_coders()
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Public names too that have not been used yet."""
    return sorted({*globals(), *__all__})
