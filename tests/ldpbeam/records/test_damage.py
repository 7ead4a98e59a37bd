"""Every file of results that is read back: each flipped bit, cut and deletion is noticed or harmless.

Harmless means that a reader gets what was written. docs/outputs.md lists the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.errors import LdpError
from ldpbeam.records.run_record import read_record
from ldpbeam.table_file import published_table
from ldpbeam.transforms.sinks.accounting import read_accounting
from tests.ldpbeam.collector.serving import report
from tests.pipelines.running import frame

STEP = 61
"""Bits from one that is flipped to the next, and bytes from one length to the next."""
PARTS = ("run.json", "accounting", "estimates", "latest", "counts", "summaries", "rejects")
DISTRIBUTION = """\
name: minutes
domain: {range: {max: 240, buckets: 24}}
protocol: loloha
hash_family: interval
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run of two epochs that have estimates, and two with distributions, with rejects."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "minutes.yaml").write_text(DISTRIBUTION)
    fleet = ["--population", "zipf:1.1", "--devices", "900", "--epochs", "2", "--seed", "1"]
    given = []
    for place, collection in (("plain", "examples/first_choice.yaml"), ("minutes", folder / "minutes.yaml")):
        call("simulate", "--collection", collection, *fleet, "--output", folder / place)
        given += ["--collection", collection, "--input", folder / place / "reports"]
    (folder / "plain" / "reports" / "other.pb").write_bytes(frame(report(1)))
    call("run", *given, "--output", folder / "out", code=4)
    return folder


def call(*words: Any, code: int = 0) -> str:
    ended = CliRunner().invoke(cli, list(map(str, words)))
    assert ended.exit_code == code, ended.output
    return ended.output


def one_of(done: Path, part: str) -> Path:
    """The first file of a part of the results."""
    return done / "out" / part if part == "run.json" else sorted((done / "out" / part).iterdir())[0]


def reader(part: str) -> Callable[[Path], Any]:
    """What reads such a file back, in every command that does."""
    if part == "run.json":
        return lambda path: read_record(path).content()
    if part == "accounting":
        return lambda path: read_accounting(str(path))
    return lambda path: published_table(path).read()


def outcomes(path: Path, read: Callable[[Path], Any], contents: Iterator[bytes]) -> Counter[str]:
    """How often damage was noticed, harmless, or gave something else."""
    found: Counter[str] = Counter()
    written = read(path)
    place = path.with_name(f".{path.name}")
    for content in contents:
        place.write_bytes(content)
        try:
            got = read(place)
        except (LdpError, pa.ArrowException, OSError):
            found["noticed"] += 1
        else:
            found["harmless" if got == written else "another content"] += 1
    place.unlink()
    return found


def flipped(content: bytes) -> Iterator[bytes]:
    for bit in range(0, 8 * len(content), STEP):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.cases(3)
def test_flipped_bits_of_every_file_are_noticed_or_harmless(part: str, done: Path) -> None:
    path = one_of(done, part)
    found = outcomes(path, reader(part), flipped(path.read_bytes()))
    assert set(found) <= {"noticed", "harmless"}
    assert found["noticed"] > 0.7 * found.total()  # what is left: layout, and the mark before a checksum


@pytest.mark.parametrize("part", PARTS)
def test_a_file_that_is_cut_anywhere_is_noticed_or_harmless(part: str, done: Path) -> None:
    path = one_of(done, part)
    content = path.read_bytes()
    found = outcomes(path, reader(part), (content[:-cut] for cut in range(1, len(content) + 1, STEP)))
    assert set(found) <= {"noticed", "harmless"}
    assert found["harmless"] <= 1  # the end of the last line
