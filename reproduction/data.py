"""Data sets: which file, where it was published, what it must look like, and what stands in for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbeam.arrays import Floats
from ldpbeam.collection.domain import Domain
from ldpbeam.simulators.population.specs import population
from ldpbeam.simulators.population.tables import column_names, read_columns
from ldpbeam.simulators.random_words import RandomWords


@dataclass(frozen=True)
class Source:
    """A file that is read and never shipped."""

    file: str
    published: str
    sha256: str = ""


SOURCES = {
    one.file: one
    for one in (
        Source(
            "adult.csv",
            "UCI Machine Learning Repository, data set Adult (CC BY 4.0): adult.data and adult.test with a "
            "header, rows with '?' left out",
            "37d60d916029704accb11d50bb784be53dbb0d00a0e8e7c1cafc33d660d154e0",
        ),
        Source(
            "nursery.csv",
            "UCI Machine Learning Repository, data set Nursery (CC BY 4.0), with a header",
            "8840fab1d7ddaae085c649317f738fa98aec2a3b0550084d72277f98751277d6",
        ),
        Source(
            "db_mt.csv",
            "US Census Bureau, American Community Survey 2018 1-year PUMS, person file of Montana: columns "
            "PWGTP1 to PWGTP80 (the Python package folktables fetches it)",
            "f3d6ec1311e284ceac65b7dc22c7ec52248bceda3e9394b3d52fc929c998bc83",
        ),
        Source(
            "db_de.csv",
            "US Census Bureau, American Community Survey 2018 1-year PUMS, person file of Delaware: columns "
            "PWGTP1 to PWGTP80 (the Python package folktables fetches it)",
        ),
        Source(
            "msfimu_marginals.json",
            "the authors' repository ldp-protocols-mobility-cdrs, printed marginals of MS-FIMU in the "
            "notebook 2_ALLOMFREE_LDP_VHs",
            "f11e9cc7ca69653745d4215b864fe96cbb90daf20283fe5020d9d4a30a4b3e4f",
        ),
        Source(
            "census_income.csv",
            "UCI Machine Learning Repository, data set Census-Income (KDD): census-income.data and .test "
            "with a header, 299,285 rows, its 33 categorical attributes",
        ),
    )
}
"""Every file that an experiment reads."""


def absent(folder: Path, file: str) -> str:
    """Why a file cannot be read; empty where it can."""
    if (folder / file).is_file():
        return ""
    source = SOURCES[file]
    known = f" Expected SHA-256: {source.sha256}." if source.sha256 else ""
    return f"{file} is not in {folder}. It is published by: {source.published}.{known}"


def stranger(file: str, digest: str) -> str:
    """That a file is another one than the page was made with; empty where it is not, or none is known."""
    expected = SOURCES[file].sha256
    if expected in ("", digest):
        return ""
    return f"{file} has SHA-256 {digest}, not {expected}: figures may differ from docs/reproduction.md."


@dataclass(frozen=True, eq=False)
class Sequences:
    """What every device holds in every epoch."""

    size: int
    pair: NDArray[np.int32]
    device: NDArray[np.int64]
    value: NDArray[np.int64]

    @property
    def epochs(self) -> int:
        return int(self.pair.shape[0])

    @property
    def devices(self) -> int:
        return int(self.pair.shape[1])

    def values(self, epoch: int) -> NDArray[np.int64]:
        """What the devices hold, int64 (devices,)."""
        held: NDArray[np.int64] = self.value[self.pair[epoch]]
        return held

    @cached_property
    def truth(self) -> Floats:
        """True frequencies, float64 (epochs, size)."""
        counts = [np.bincount(self.values(t), minlength=self.size) for t in range(self.epochs)]
        return np.array(counts, np.float64) / self.devices

    def bucketed(self, buckets: int) -> Sequences:
        """The same in ``buckets`` intervals of equal width (Microsoft section 2, LOLOHA section 5.1)."""
        return paired(self.value[self.pair] * buckets // self.size, buckets)


def paired(values: NDArray[np.integer[Any]], size: int) -> Sequences:
    """Sequences from values (epochs, devices) below ``size``."""
    devices = values.shape[1]
    keys = np.arange(devices, dtype=np.int64) * size + values
    pairs, inverse = np.unique(keys, return_inverse=True)
    return Sequences(size, inverse.reshape(values.shape).astype(np.int32), pairs // size, pairs % size)


def sequences(
    name: str, folder: Path, seed: int, devices: int | None = None, epochs: int | None = None
) -> Sequences:
    """A data set of LOLOHA section 5.1."""
    path = folder / f"{name}.csv"
    written = path.stat().st_mtime_ns if name != "syn" else 0
    return _sequences(name, folder, seed, devices, epochs, written)


@lru_cache(2)
def _sequences(
    name: str, folder: Path, seed: int, devices: int | None, epochs: int | None, written: int
) -> Sequences:
    words = RandomWords(seed)
    if name == "syn":
        spec, size, devices, epochs = "syn:0.25", 360, devices or 10_000, epochs or 120
    elif name == "adult":
        spec, size, epochs = f"csv:{folder / 'adult.csv'}:hours-per-week,permute", 96, epochs or 260
    else:
        path = folder / f"{name}.csv"
        names = column_names(path)
        texts = {text for column in read_columns(path, names) for text in column.texts}
        spec, size = f"csv:{path}:{names[0]}..{names[-1]}", len(texts - {""})
    people = population(spec, domain=Domain(size), devices=devices, epochs=epochs, random_words=words)
    return paired(np.stack(list(people.values())), size)


CENSUS_ROWS = 299_285
"""Of Census-Income, whose file nobody here has seen."""

_ADULT = (
    *("workclass", "education", "marital-status", "occupation", "relationship", "race"),
    *("sex", "native-country", "salary"),
)


@lru_cache(4)
def attributes(name: str, folder: Path) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """A data set of ALLOMFREE section 5.1: values (devices, attributes), and the sizes of the domains."""
    if name == "msfimu":
        held = json.loads((folder / "msfimu_marginals.json").read_text("utf-8"))
        counts = [column for column in held.values() if isinstance(column, list)]
        columns = [np.repeat(np.arange(len(column)), column) for column in counts]
        return np.stack(columns, axis=1), tuple(len(column) for column in counts)
    path = folder / f"{name}.csv"
    names = _ADULT if name == "adult" else column_names(path)
    read = read_columns(path, names)
    if name == "census_income" and len(read[0].codes) != CENSUS_ROWS:
        raise ValueError(
            f"{path} has {len(read[0].codes)} rows, and Census-Income has {CENSUS_ROWS}; give the training "
            "and the test part together"
        )
    values = np.stack([column.codes.astype(np.int64) for column in read], axis=1)
    return values, tuple(len(column.texts) for column in read)
