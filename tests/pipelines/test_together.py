"""Collections that are counted together give what each of them gives alone, whatever their calendars."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ldpbeam.collection.collection import Collection
from ldpbeam.collection.epochs import Epochs
from tests.pipelines.running import collection, execute, fleet, with_duplicates, write

HOUR, DAY = 3600, 86_400
FEW: list[Collection] = [
    collection("grr", name="one", epochs=Epochs(HOUR, 0, 50)),
    # Begins a day later, so that its epoch 0 is the first one's epoch 24: one calendar.
    collection("loloha", name="later", epochs=Epochs(HOUR, DAY, 50)),
    collection("sue", 30, name="offset", epochs=Epochs(HOUR, 600, 50)),
    collection("olh", 30, name="days", epochs=Epochs(DAY, 0, 50)),
]


def of_epochs(output: Path) -> dict[str, bytes]:
    folders = (output / "estimates", output / "accounting")
    return {p.name: p.read_bytes() for folder in folders for p in folder.glob("*-epoch-*")}


@pytest.mark.thorough
@pytest.mark.parametrize(("max_epochs", "deduplicate"), [(2, True), (1000, False)])
def test_together_is_as_alone(tmp_path: Path, deduplicate: bool, max_epochs: int) -> None:
    """Byte for byte: estimates and accounting of every epoch; with epochs left out, and with copies."""
    for one in FEW:
        # The epoch with the fewest reports, which is the first to be left out, is not the same everywhere.
        fewest = len(one.name) % 3
        sent = [b for b in fleet(one) if b.epoch != fewest or len(b) < 128]
        write(tmp_path / one.name, one, with_duplicates(sent))
    options = {"deduplicate": deduplicate, "max_epochs": max_epochs}
    files = [path for one in FEW for path in sorted((tmp_path / one.name).iterdir())]
    together = execute(FEW, files, tmp_path / "together", **options)
    total: dict[str, bytes] = {}
    rejected: Counter[str] = Counter()
    left_out: list[str] = []
    for one in FEW:
        alone = execute(one, tmp_path / one.name, tmp_path / f"alone-{one.name}", **options)
        found = of_epochs(alone.output)
        assert len(found) == 2 * min(max_epochs, 3)
        assert not total.keys() & found.keys()
        total |= found
        rejected.update(alone.total["rejected"])
        left_out += [str(row) for row in alone.rejects()]
    assert of_epochs(together.output) == total
    assert (together.total["duplicate"] > 0) == deduplicate
    assert together.total["rejected"] == rejected
    assert sorted(str(row) for row in together.rejects()) == sorted(left_out)
    assert (rejected["too_many_epochs"] > 0) == (max_epochs == 2)
