"""The driver and the pipeline are the same computation: equal files, for every kind of protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpbeam.admission import ReportColumns
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.values import Index
from ldpbeam.epoch_result import result_of_epoch
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.transforms.sinks.estimates import WriteEpochs
from tests.ldpbeam.report_page.test_protocols import EPOCHS, every_kind, values_of
from tests.pipelines.running import Done, execute, with_duplicates, write

DEVICES = 240
KINDS = {collection.name: collection for collection in every_kind()}


def reports(collection: Collection) -> list[ReportColumns]:
    crowd, values = Fleet(collection, DEVICES, 1, rows_per_batch=100), values_of(collection)
    sent = [batch for epoch in range(EPOCHS) for batch in crowd.batches(Index(values), epoch)[1]]
    return with_duplicates(sent)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    base = tmp_path_factory.mktemp("kinds")
    for collection in KINDS.values():
        write(base / "in", collection, reports(collection), prefix=collection.digest_hex)
    return execute(tuple(KINDS.values()), base / "in", base / "out", shard_bits=1)


def written(folder: Path, collection: Collection) -> dict[str, bytes]:
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for kind in ("estimates", "latest", "accounting")
        for path in (folder / kind).glob(f"*-{collection.digest_hex}-*")
    }


@pytest.mark.thorough
@pytest.mark.parametrize("collection", KINDS.values(), ids=KINDS)
def test_the_driver_publishes_the_bytes_of_the_pipeline(
    collection: Collection, done: Done, tmp_path: Path
) -> None:
    sink = WriteEpochs(collection, str(tmp_path))
    sink.setup()
    sent = reports(collection)
    for epoch in range(EPOCHS):
        found = result_of_epoch(collection, epoch, [part for part in sent if part.epoch == epoch])
        assert found.account is not None
        assert found.account.balanced
        assert found.account.duplicate + found.account.rejected["conflicting_report_id"] in {40, 80}
        list(sink.process(found))
    assert written(tmp_path, collection) == written(done.output, collection)
    assert len(written(tmp_path, collection)) == 3 * EPOCHS
