"""The four papers' evaluations, run again on this library: ``python -m reproduction``.

A module or two per paper makes experiments (:mod:`.contract`) of its tables and figures (:mod:`.study`);
:mod:`.runner` computes and stores them. They only use what the library offers everybody, and so are also
examples of how to do research with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from reproduction.paper import Experiment

__all__ = ["EXPERIMENTS", "experiment"]

_PAPERS = (
    "loloha",
    "loloha_data",
    "consistency",
    "allomfree",
    "microsoft",
    "microsoft_histograms",
    "microsoft_privacy",
    "corrections",
    "corrections_over_time",
)
"""Modules with a tuple EXPERIMENTS."""


@cache
def _all() -> dict[str, Experiment]:
    modules = (import_module(f"{__name__}.{paper}") for paper in _PAPERS)
    return {one.name: one for module in modules for one in module.EXPERIMENTS}


class _Experiments(Mapping[str, Experiment]):
    def __getitem__(self, name: str) -> Experiment:
        return experiment(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_all())

    def __len__(self) -> int:
        return len(_all())


EXPERIMENTS: Mapping[str, Experiment] = _Experiments()
"""Every experiment by its name, in the order of the papers."""


def experiment(name: str) -> Experiment:
    """The experiment of that name; ``loloha:fig3:NAME`` also for a file NAME.csv of your own."""
    known = _all().get(name)
    return known if known is not None else _own(name)


@cache
def _own(name: str) -> Experiment:
    from reproduction import loloha_data

    parts = name.split(":")
    if len(parts) == 3 and parts[2].isidentifier():
        for one in loloha_data.of(parts[2]):
            if one.name == name:
                return one
    raise KeyError(name)
