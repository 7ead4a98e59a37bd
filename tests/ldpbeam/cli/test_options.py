"""Options of commands change something: each is set, and its effect is seen.

The options here are those whose effect no other test of their command sees.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

import ldpbeam
from ldpbeam.cli.main import cli
from ldpbeam.cli.shared.options import given
from ldpbeam.job.option import Over
from ldpbeam.transforms.sources import files as source_files
from ldpbeam.wire import codec, report_pb2

YAML = """\
name: one
domain: {size: 11}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h, count: 100}
min_reports: 1
"""
PEOPLE = """\
name: people
attributes:
  - {name: age, domain: {range: {max: 80, buckets: 8}}}
  - {name: hours, domain: {range: {max: 24, buckets: 5}}}
allocation: sample
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h}
min_reports: 1
"""

# --- running a command


@dataclass(frozen=True)
class Ended:
    """How a command ended, and the folder that it worked in."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def error(self) -> str:
        """The code of a refusal; empty where there was none."""
        found = re.findall(r"\[(E-[A-Z-]+)\]", self.err)
        return found[-1] if found else "usage" if self.code else ""

    def record(self, name: str = "out") -> Any:
        return json.loads((self.folder / name / "run.json").read_text())


Seen = Callable[[Ended], Any]
"""What is looked at after a command has ended."""


@dataclass(frozen=True)
class Effect:
    """What an option adds to a command line, what is looked at, and what is seen with it."""

    added: str
    seen: Seen
    wanted: Any


@pytest.fixture(scope="module", autouse=True)
def small_files_expand() -> Iterator[None]:
    """The limit of expansion holds from the first byte on, not from a megabyte on."""
    with mock.patch.object(source_files, "FREE_BYTES", 0):
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections, reports, results and files that commands are asked about."""
    place = tmp_path_factory.mktemp("site")
    (place / "one.yaml").write_text(YAML)
    (place / "people.yaml").write_text(PEOPLE)

    def ran(line: str) -> None:
        done = CliRunner().invoke(cli, line.format(s=place).split(), catch_exceptions=False)
        assert done.exit_code in (0, 5), done.output

    made = "simulate --population zipf:1 -q --collection {s}/"
    ran(made + "one.yaml --devices 300 --epochs 4 --output {s}/sim --truth")
    ran(made + "people.yaml --devices 400 --epochs 3 --output {s}/p")
    # Epoch 0 once more; in epoch 1 a third of the records has a wrong payload; each report of epoch 3 ten
    # times, well compressed.
    first, second, *_, last = sorted((place / "sim" / "reports").iterdir())
    (place / "sim" / "reports" / "again.pb").write_bytes(first.read_bytes())
    digest = ldpbeam.load_collection(place / "one.yaml").digest
    bad = [report_pb2.Report(digest=digest, epoch=1, report_id=i, payload=b"1234567") for i in range(1, 151)]
    content = second.read_bytes() + b"".join(codec.framed(one.SerializeToString()) for one in bad)
    second.write_bytes(content)
    last.with_suffix(".pb.gz").write_bytes(gzip.compress(last.read_bytes() * 10))
    last.unlink()
    ran("run --collection {s}/one.yaml --input {s}/sim/reports --output {s}/out -q")
    ran("run --collection {s}/people.yaml --input {s}/p/reports --output {s}/people -q")
    return place


def ended(line: str, site: Path, folder: Path) -> Ended:
    """Run a command line, in which {s} is the site and {t} a folder of its own."""
    folder.mkdir(exist_ok=True)
    tokens = [one.format(s=site, t=folder) for one in line.split()]
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(cli, tokens)
    finally:
        os.chdir(before)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        error: Any = done.exception
        assert hasattr(error, "exit_code"), (line, error)
        return Ended(error.exit_code, done.stdout, f"{done.stderr}{error}", folder)
    return Ended(done.exit_code, done.stdout, done.stderr, folder)


_ENDED: dict[tuple[Path, str], Ended] = {}


def once(line: str, site: Path) -> Ended:
    key = site, line
    if key not in _ENDED:
        _ENDED[key] = ended(line, site, site / f"once-{len(_ENDED)}")
    return _ENDED[key]


# --- what is looked at


def error(done: Ended) -> str:
    return done.error


def total(*names: str) -> Seen:
    """Entries of the run's total."""

    def look(done: Ended) -> Any:
        found = done.record()["accounting"]["total"]
        return tuple(found[name] for name in names)

    return look


def rejected(done: Ended) -> Any:
    return sorted(done.record()["accounting"]["total"]["rejected"])


def lines(pattern: str) -> Seen:
    """How many lines of the output match."""
    return lambda done: sum(bool(re.search(pattern, line)) for line in done.out.splitlines())


def suffixes(done: Ended) -> Any:
    return {path.suffix[1:] for path in (done.folder / "x" / "reports").iterdir()}


RUN = "run --collection {s}/one.yaml --input {s}/sim/reports --output {t}/out -q"
SIMULATE = "simulate --collection {s}/one.yaml --population zipf:1 --devices 30 --epochs 2 --output {t}/x"


def epochs_of(done: Ended) -> Any:
    return len([e for e in done.record()["accounting"]["epochs"] if e["counted"]])


EFFECTS: dict[str, dict[str, Effect]] = {
    "run": {
        "--max-expansion": Effect("--max-expansion 1", rejected, ["expansion_limit", "wrong_length"]),
        "--max-epochs": Effect("--max-epochs 1", epochs_of, 1),
        "--not-after": Effect("--not-after 1970-01-01T00:30:00Z", rejected, ["future_epoch", "wrong_length"]),
        "--dedup": Effect("--no-dedup", total("duplicate"), (0,)),
        "--max-error-fraction": Effect(
            "--max-error-fraction 0.9",
            lambda d: {e["withheld"] for e in d.record()["accounting"]["epochs"]},
            {""},
        ),
        "--kafka-topic": Effect("--kafka-topic t", error, "E-USAGE-OPTION"),
    },
    "compare": {"--attribute": Effect("--attribute hours", error, "")},
    "simulate": {
        "--format": Effect("--format parquet", suffixes, {"parquet"}),
        "--compression": Effect("--compression gzip", suffixes, {"gz"}),
    },
    "inspect": {
        "--limit": Effect("--limit 3", lambda d: len(d.out.splitlines()), 3),
        "--collection": Effect("--collection {s}/one.yaml", lines(r"reports, one"), None),
    },
}
BASES = {
    "run": RUN, "compare": "compare {s}/people --collection {s}/people.yaml", "simulate": SIMULATE,
    "inspect": "inspect {s}/sim/reports",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command, some in EFFECTS.items() for option in some],
)
@pytest.mark.cases(4, 100)
def test_an_option_has_its_effect(site: Path, tmp_path: Path, command: str, option: str) -> None:
    effect = EFFECTS[command][option]
    without = effect.seen(once(BASES[command], site))
    found = effect.seen(ended(f"{BASES[command]} {effect.added}", site, tmp_path / "with"))
    assert found != without
    if effect.wanted is not None:
        assert found == effect.wanted


# --- audits, of which only what would be audited is looked at


def audited(line: str, site: Path, folder: Path) -> Any:
    """Draws, client and collections of the audits that a command line asks for."""
    asked: list[Any] = []

    def none(tasks: Any) -> list[Any]:
        asked.extend(tasks)
        return []

    with mock.patch("ldpbeam.audit.parallel.audit_all", none):
        assert ended(line, site, folder).code == 0
    return asked


def test_draws_and_clients_of_an_audit(site: Path, tmp_path: Path) -> None:
    def draws(line: str) -> int:
        return max(task.draws for task in audited(line, site, tmp_path))

    base = "audit {s}/one.yaml"
    assert draws(base) == 100_000
    assert draws(f"{base} --draws 200") == 200
    assert draws(f"{base} --quick") < 100_000
    assert len(audited("audit --quick", site, tmp_path)) < len(audited("audit", site, tmp_path))
    assert "./mine" not in str(audited(base, site, tmp_path))
    assert "./mine" in str(audited(f"{base} --client ./mine", site, tmp_path))


def test_options_over_files_say_nothing_about_messages() -> None:
    some = ["--max-epochs", "5", "--not-after", "2026-01-01T00:00:00Z", "--overwrite"]
    typed, plain = (
        cli.commands["run"].make_context("run", ["--collection", "c", "--output", "o", *more])
        for more in (some, [])
    )
    assert given(typed, {Over.MESSAGES}) == given(plain, {Over.MESSAGES})
    there = given(typed, {Over.FILES})
    assert (there["max_epochs"], there["not_after"], there["overwrite"]) == (5, 1_767_225_600, True)
