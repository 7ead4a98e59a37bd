"""Every experiment by its name, in the order of the papers."""

from __future__ import annotations

from reproduction import (
    allomfree,
    consistency,
    corrections,
    loloha,
    loloha_data,
    microsoft,
    microsoft_histograms,
    microsoft_privacy,
)

_PAPERS = (
    *(loloha, loloha_data, consistency, allomfree, microsoft, microsoft_histograms, microsoft_privacy),
    corrections,
)

EXPERIMENTS = {one.name: one for paper in _PAPERS for one in paper.EXPERIMENTS}
