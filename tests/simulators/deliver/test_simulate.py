"""A simulation on disk: the fleet's reports, the truth, and the record, all reproducible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import ldpbeam
from ldpbeam.admission import Admission
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import Epochs
from ldpbeam.collection.slices import Slices
from ldpbeam.collection.values import Index
from ldpbeam.durable.document import parse_document
from ldpbeam.errors import UsageError
from ldpbeam.protocols import Parameters
from ldpbeam.report_page.estimates import Truth
from ldpbeam.simulators.deliver.files import FORMATS, Format, report_file, write_reports
from ldpbeam.simulators.deliver.simulate import simulate
from ldpbeam.simulators.faults import write_faults
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.population.specs import ABSENT, Population, population
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.wire import codec, report_pb2
from tests.narrow import present

VALUES = np.array([[0, 1, 2, ABSENT], [ABSENT] * 4, [2, 2, ABSENT, 2]], np.int32)


@dataclass(frozen=True, eq=False)
class Given:
    """A population written down."""

    table: NDArray[np.int32]
    labels: tuple[str, ...] | None = None

    @property
    def devices(self) -> int:
        return int(self.table.shape[1])

    @property
    def epochs(self) -> int:
        return len(self.table)

    def values(self) -> Iterator[NDArray[np.int32]]:
        return iter(self.table.copy())


def collection(
    domain: Domain | int = 3, protocol: str = "loloha", count: int = 1000, **parameters: Any
) -> Collection:
    return Collection(
        name="minutes",
        version=1,
        domain=Domain(domain) if isinstance(domain, int) else domain,
        protocol_name=protocol,
        parameters=Parameters(**(parameters or {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0})),
        epochs=Epochs(3600, 0, count),
    )


def syn(agreed: Collection, devices: int = 50, epochs: int = 4) -> Population:
    return population(
        "syn", domain=present(agreed.domain), devices=devices, epochs=epochs, random_words=RandomWords(5)
    )


def tree(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*.*"))}


@pytest.mark.parametrize("kind", FORMATS)
def test_files_hold_the_fleets_reports(tmp_path: Path, kind: Format) -> None:
    agreed, people = collection(), Given(VALUES)
    record = simulate(agreed, people, tmp_path, seed=4, format=kind, first_epoch=10)
    fleet, written = Fleet(agreed, 4, 4), set[Path]()
    for epoch, values in enumerate(VALUES, 10):
        # Of epoch 11, in which nobody was there, neither has a file.
        if write_reports(kind, tmp_path / "alone", fleet.batches(Index(values), epoch)[1]):
            written.add(report_file(tmp_path / "reports", epoch, kind, "none"))
            assert max(written).read_bytes() == (tmp_path / "alone").read_bytes()
    assert {*(tmp_path / "reports").iterdir()} == written
    assert record.reports == 6
    assert record.mean_memoised_inputs == fleet.memoised_inputs().mean() > 0
    level = present(agreed.protocol.guarantee.per_memoised_input)
    assert record.mean_longitudinal_loss == pytest.approx(record.mean_memoised_inputs * level, rel=1e-15)


def test_the_record_is_what_is_written(tmp_path: Path) -> None:
    agreed = collection()
    told: list[tuple[int, int]] = []
    record = simulate(
        agreed,
        Given(VALUES),
        tmp_path / "new" / "out",
        seed=4,
        spec="panel:x.csv:a,b,c",
        compression="gzip",
        first_epoch=2,
        on_epoch=lambda epoch, reports: told.append((epoch, reports)),
    )
    written = parse_document((tmp_path / "new" / "out" / "simulation.json").read_bytes())
    assert written == asdict(record)
    assert written["population"] == "panel:x.csv:a,b,c"
    assert written["digest"] == agreed.digest_hex
    assert (written["seed"], written["devices"], written["epochs"]) == (4, 4, 3)
    assert (written["protocol"], written["collection"]) == ("loloha", "minutes")
    assert told == [(2, 3), (3, 0), (4, 3)]
    assert sorted(tree(tmp_path / "new" / "out")) == [
        "reports/epoch-000002.pb.gz",
        "reports/epoch-000004.pb.gz",
        "simulation.json",
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_equal_arguments_give_equal_files(tmp_path: Path, kind: Format) -> None:
    agreed = collection(20)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate(agreed, syn(agreed), tmp_path / name, seed=seed, format=kind, truth=True)
    a, b, c = (tree(tmp_path / name) for name in "abc")
    assert a == b
    assert a.keys() == c.keys()
    assert [name for name in a if a[name] == c[name]] == ["truth.parquet"]


def test_the_truth(tmp_path: Path) -> None:
    simulate(collection(), Given(VALUES), tmp_path, seed=1, truth=True, first_epoch=5)
    table = pq.read_table(tmp_path / "truth.parquet")
    kinds = {"epoch": "int64", "attribute": "string", "value": "int64", "label": "string", "count": "int64"}
    assert dict(zip(table.column_names, map(str, table.schema.types), strict=True)) == {
        **kinds,
        "frequency": "double",
        "n": "int64",
    }
    rows = [tuple(row.values()) for row in table.to_pylist()]
    third = 1 / 3
    assert rows == [
        *((5, "", v, str(v), 1, third, 3) for v in range(3)),
        *((6, "", v, str(v), 0, None, 0) for v in range(3)),
        (7, "", 0, "0", 0, 0.0, 3),
        (7, "", 1, "1", 0, 0.0, 3),
        (7, "", 2, "2", 3, 1.0, 3),
    ]


@pytest.mark.parametrize(
    ("domain", "data", "shown"),
    [
        (Domain(3), None, ["0", "1", "2"]),
        (Domain(3), ("no", "yes", ""), ["no", "yes", "2"]),
        (Domain(3, labels=("a", "b", "c")), ("a", "b", "c"), ["a", "b", "c"]),
        (Domain(3, maximum=6.0), ("x", "y", "z"), ["[0, 2)", "[2, 4)", "[4, 6)"]),
    ],
)
def test_labels_are_the_collections_else_the_datas(
    tmp_path: Path, domain: Domain, data: tuple[str, ...] | None, shown: list[str]
) -> None:
    simulate(collection(domain), Given(VALUES, labels=data), tmp_path, seed=1, truth=True)
    labels = pq.read_table(tmp_path / "truth.parquet").column("label").to_pylist()
    assert labels == shown * 3


def test_reports_are_never_mixed(tmp_path: Path) -> None:
    simulate(collection(), Given(VALUES), tmp_path, seed=1)
    before = tree(tmp_path)
    with pytest.raises(UsageError) as caught:
        simulate(collection(), Given(VALUES), tmp_path, seed=2)
    assert caught.value.code == "E-USAGE-OUTPUT"
    assert str(tmp_path / "reports") in str(caught.value)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"first_epoch": 998}, "E-USAGE-POPULATION"),
        ({"first_epoch": -1}, "E-USAGE-POPULATION"),
        ({"format": "csv"}, "E-USAGE-OPTION"),
        ({"compression": "brotli"}, "E-USAGE-OPTION"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    arguments = {"population": Given(VALUES), "seed": 1, **changes}
    with pytest.raises(UsageError) as caught:
        simulate(collection(), out=tmp_path / "out", **arguments)
    assert caught.value.code == code
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_simulation_that_stops_leaves_no_record(tmp_path: Path) -> None:
    def stop(epoch: int, reports: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(collection(), Given(VALUES), tmp_path, seed=1, truth=True, on_epoch=stop)
    assert sorted(tree(tmp_path)) == ["reports/epoch-000000.pb"]


def test_files_of_epochs_to_come_are_from_their_time(tmp_path: Path) -> None:
    """A run refuses reports from before their epoch; past epochs keep the time of writing."""
    agreed = replace(collection(), epochs=Epochs(3600, 4_000_000_000, 1000))
    simulate(agreed, syn(agreed), tmp_path / "later", seed=1)
    times = [path.stat().st_mtime for path in sorted((tmp_path / "later" / "reports").iterdir())]
    assert times == [4_000_000_000 + 3600 * (epoch + 1) for epoch in range(4)]
    simulate(collection(), syn(collection()), tmp_path / "past", seed=1)
    assert all(path.stat().st_mtime > 10**9 for path in (tmp_path / "past" / "reports").iterdir())


SLICES = Slices.of({"arm": ["a", "b"], "land": ["DE", "FR"]})


@pytest.mark.parametrize("kind", FORMATS)
def test_files_of_slices_hold_the_reports_that_devices_send(tmp_path: Path, kind: Format) -> None:
    sliced = replace(collection(), slices=SLICES)
    simulate(collection(), Given(VALUES), tmp_path / "plain", seed=4, format=kind)
    simulate(sliced, Given(VALUES), tmp_path, seed=4, format=kind, truth=True)
    table = pq.read_table(tmp_path / "truth.parquet")
    assert table.column_names[:3] == ["slice_arm", "slice_land", "epoch"]
    truth = table.to_pylist()
    found: Counter[int] = Counter()
    for epoch in (0, 2):
        sent = [
            dict(reports(ldpbeam.admit(sliced, messages(report_file(folder, epoch, kind, "none"), kind))))
            for folder in (tmp_path / "reports", tmp_path / "plain" / "reports")
        ]
        assert sent[0].keys() == sent[1].keys()
        for report_id, payload in sent[0].items():
            assert payload[:-8] == sent[1][report_id][:-8]
            found[int.from_bytes(payload[-8:], "little")] += 1
    for one, digests in sliced.published_slices.items():
        said = {f"slice_{name}": dict(one).get(name) for name in ("arm", "land")}
        rows = [row for row in truth if said.items() <= row.items()]
        assert [(row["epoch"], row["value"]) for row in rows] == [(e, v) for e in range(3) for v in range(3)]
        assert sum(row["n"] for row in rows) == 3 * sum(found[digest] for digest in digests)
        assert all(row["frequency"] == (row["count"] / row["n"] if row["n"] else None) for row in rows)
    whole = [row for row in truth if row["slice_arm"] is row["slice_land"] is None]
    assert [row["count"] for row in whole] == [1, 1, 1, 0, 0, 0, 0, 0, 3]
    arms = [
        row["count"]
        for name in "ab"
        for row in truth
        if (row["slice_arm"], row["slice_land"]) == (name, None)
    ]
    assert np.array(arms).reshape(2, 9).sum(axis=0).tolist() == [row["count"] for row in whole]
    # The page of the whole reads the rows of the whole.
    known = Truth(tmp_path / "truth.parquet")
    assert known.at(2, np.arange(3)).tolist() == [0, 0, 1]


def reports(admission: Admission) -> list[tuple[int, bytes]]:
    return [
        (report_id, payload.tobytes())
        for one in admission.admitted
        for report_id, payload in zip(one.report_ids.tolist(), one.payloads, strict=True)
    ]


def messages(path: Path, kind: Format) -> list[bytes]:
    """Of a file; of a table its rows as messages of one report."""
    if kind == "parquet":
        return [report_pb2.Report(**row).SerializeToString() for row in pq.read_table(path).to_pylist()]
    found = codec.frames(np.frombuffer(path.read_bytes(), np.uint8))
    pairs = zip(found.offsets.tolist(), found.lengths.tolist(), strict=True)
    return [bytes(found.buffer[at : at + length]) for at, length in pairs]


def test_faulty_records_are_of_the_slices_that_reports_came_with(tmp_path: Path) -> None:
    sliced = replace(collection(), slices=SLICES)
    simulate(sliced, syn(sliced, 60, 1), tmp_path, seed=4)
    file = write_faults(sliced, tmp_path / "reports")
    sent = reports(ldpbeam.admit(sliced, messages(tmp_path / "reports" / "epoch-000000.pb", "batch")))
    again = reports(ldpbeam.admit(sliced, messages(file, "batch")[:25]))
    assert len(again) == 25
    assert set(again) < set(sent)
    assert len({row[-8:] for _, row in again}) > 1
