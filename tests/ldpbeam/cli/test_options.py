"""Every option of every command changes something: each is set, and its effect is seen.

The options come from click itself. Each has an entry that runs its command without it and with it, and says
what differs; an option without an entry fails, as does one whose entry sees no difference. What needs a
service or a cluster is seen by a test elsewhere, which is named.
"""

from __future__ import annotations

import csv
import gzip
import http.client
import io
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import ldpbeam
from ldpbeam.cli import demo as demonstration
from ldpbeam.cli import run as running
from ldpbeam.cli.main import cli
from ldpbeam.collection.collection import Collection
from ldpbeam.transforms.sources import files as source_files
from ldpbeam.transforms.sources.stored_file import StoredFile
from ldpbeam.wire import codec, report_pb2
from tests.conftest import REPOSITORY
from tests.ldpbeam.collector.serving import TYPE
from tests.ldpbeam.engine.test_engine import HOUR, Bench
from tests.narrow import present
from tests.waiting import PATIENCE

YAML = """\
name: {name}
domain: {{size: 11}}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {{length: 1h, count: 100}}
min_reports: 1
"""
MINUTES = """\
name: minutes
domain: {range: {max: 120, buckets: 12}}
protocol: l_osue
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
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
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        """Of a CSV file on standard output; none where it refused."""
        return list(csv.DictReader(io.StringIO(self.out))) if self.code == 0 else []

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
    """What an option adds to a command line, what is looked at, and what is seen with it.

    Attributes:
        wanted: None where it is enough that it is not the same without the option.
        base: the command line without it, in the place of the command's own.
    """

    added: str
    seen: Seen
    wanted: Any
    base: str = ""


@pytest.fixture(scope="module", autouse=True)
def small_files_expand() -> Iterator[None]:
    """The limit of expansion holds from the first byte on, not from a megabyte on."""
    with mock.patch.object(source_files, "FREE_BYTES", 0):
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections, reports, results and files that commands are asked about."""
    place = tmp_path_factory.mktemp("site")
    for name in ("one", "two"):
        (place / f"{name}.yaml").write_text(YAML.format(name=name))
    (place / "newer.yaml").write_text(YAML.format(name="one").replace("size: 11", "size: 12"))
    (place / "minutes.yaml").write_text(MINUTES)
    (place / "others.yaml").write_text(MINUTES.replace("minutes", "others"))
    (place / "people.yaml").write_text(PEOPLE)
    (place / "groups.csv").write_text("group,value\nshort,0..30\nlong,30..120\n")
    (place / "parts.csv").write_text("group,value\nlow,0..4\nhigh,5..10\n")
    (place / "values.csv").write_text("value\n" + "".join(f"{i % 3}\n" for i in range(60)))
    (place / "panel.csv").write_text("device,epoch,value\na,0,1\na,0,2\nb,0,3\n")
    (place / "labels.txt").write_text("red\ngreen\nblue\n")

    def ran(line: str) -> None:
        done = CliRunner().invoke(cli, line.format(s=place).split(), catch_exceptions=False)
        assert done.exit_code in (0, 5), done.output

    made = "simulate --population zipf:1 -q --collection {s}/"
    ran(made + "one.yaml --devices 300 --epochs 4 --output {s}/sim --truth")
    ran(made + "two.yaml --devices 60 --epochs 2 --output {s}/two")
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
    for name, ahead in (("minutes", 0), ("others", 1)):
        agreed = ldpbeam.load_collection(place / f"{name}.yaml")
        fleet = ldpbeam.Fleet(agreed, 2000)
        for folder in {name, "both"}:
            (place / folder / "latest").mkdir(parents=True, exist_ok=True)
        for epoch in range(9):
            held = (np.arange(2000) % 12) // (1 + (epoch > 4)) + ahead * 0
            table = ldpbeam.estimate(agreed, fleet.report(held, epoch))
            for folder in (name, "both"):
                pq.write_table(table, place / folder / "latest" / f"{name}-{epoch}.parquet")
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
    """The same, once for all tests."""
    key = site, line
    if key not in _ENDED:
        _ENDED[key] = ended(line, site, site / f"once-{len(_ENDED)}")
    return _ENDED[key]


# --- what is looked at


def error(done: Ended) -> str:
    return done.error


def out(*path: Any) -> Seen:
    """A place in the JSON document."""

    def look(done: Ended) -> Any:
        found = done.document if done.code in (0, 4, 5) else {}
        for part in path:
            found = found[part] if isinstance(found, list) or part in (found or ()) else None
        return found

    return look


def total(*names: str) -> Seen:
    """Entries of the run's total."""

    def look(done: Ended) -> Any:
        found = done.record()["accounting"]["total"]
        return tuple(found[name] for name in names)

    return look


def rejected(done: Ended) -> Any:
    return sorted(done.record()["accounting"]["total"]["rejected"])


def there(name: str) -> Seen:
    return lambda done: (done.folder / name).exists()


def column(name: str) -> Seen:
    """The values of a column in order, each once."""
    return lambda done: list(dict.fromkeys(row.get(name) for row in done.rows))


def lines(pattern: str) -> Seen:
    """How many lines of the output match."""
    return lambda done: sum(bool(re.search(pattern, line)) for line in done.out.splitlines())


def reports_in(name: str) -> Seen:
    return lambda done: sorted(path.name for path in (done.folder / name / "reports").iterdir())


RUN = "run --collection {s}/one.yaml --input {s}/sim/reports --output {t}/out -q"
EXPORT = "export {s}/minutes --collection {s}/minutes.yaml"
EACH = f"{EXPORT} --every 3"
COMPARE = "compare {s}/minutes --collection {s}/minutes.yaml --epochs 0..4 --against 5..8 --json"
SIMULATE = "simulate --collection {s}/one.yaml --population zipf:1 --devices 30 --epochs 2 --output {t}/x"
PLAN = "plan --values 12 --devices 20000 --epochs 10 --epsilon-longitudinal 2 --json"
WRITTEN = f"{PLAN} --output {{t}}/p.yaml"


INIT = "init {t}/c.yaml --values 12 --devices 20000 --json"


def begun(name: str) -> Seen:
    """A line of the collection that init writes; nothing where it writes none."""

    def look(done: Ended) -> Any:
        path = done.folder / "c.yaml"
        return re.findall(rf"^{name}: (.*)$", path.read_text(), re.M) if path.exists() else None

    return look


def planned(*path: str) -> Seen:
    return out("recommended", *path)


def yaml_line(name: str) -> Seen:
    return lambda done: re.findall(rf"^\s*{name}:? *(.*)$", (done.folder / "p.yaml").read_text(), re.M)[:1]


def epochs_of(done: Ended) -> Any:
    return len([e for e in done.record()["accounting"]["epochs"] if e["counted"]])


EFFECTS: dict[str, dict[str, Effect]] = {
    "run": {
        "--collection": Effect("--collection {s}/two.yaml", lambda d: len(d.record()["collections"]), 2),
        "--input": Effect("--input {s}/two/reports", total("read"), (300 * 14 + 150 + 120,)),
        "--output": Effect(
            "--output {t}/out", there("out/run.json"), True, RUN.replace(" --output {t}/out", "")
        ),
        "--max-expansion": Effect("--max-expansion 1", rejected, ["expansion_limit", "wrong_length"]),
        "--max-epochs": Effect("--max-epochs 1", epochs_of, 1),
        "--not-after": Effect("--not-after 1970-01-01T00:30:00Z", rejected, ["future_epoch", "wrong_length"]),
        "--dedup": Effect("--no-dedup", total("duplicate"), (0,)),
        "--max-error-fraction": Effect(
            "--max-error-fraction 0.9",
            lambda d: {e["withheld"] for e in d.record()["accounting"]["epochs"]},
            {""},
        ),
        "--overwrite": Effect(
            "--overwrite",
            lambda d: d.code,
            5,
            "run --collection {s}/two.yaml --input {s}/sim/reports --output {t}/out",
        ),
        "--runner": Effect("--runner NoSuchRunner", error, "E-USAGE-OPTION"),
        "--subscription": Effect(
            "--subscription projects/p",
            error,
            "E-PUBSUB-MISSING",
            RUN.replace(" --input {s}/sim/reports", ""),
        ),
        "--kafka-topic": Effect("--kafka-topic t", error, "E-USAGE-OPTION"),
    },
    "export": {
        "--collection": Effect("--collection {s}/minutes.yaml", error, "", "export {s}/minutes --every 3"),
        "--latest": Effect("--latest", error, "E-USAGE-OPTION", EACH),
        "--every": Effect("--every 4", column("first_epoch"), ["0", "4", "8"]),
        "--by": Effect("--by week", column("epochs"), ["4", "5"]),
        "--group": Effect("--group {s}/groups.csv", column("group"), ["short", "long"]),
        "--cumulative": Effect("--cumulative", lambda d: list(d.rows[0]), None),
        "--quantile": Effect("--quantile 0.5,0.9", column("quantile"), ["0.5", "0.9"]),
        "--mean": Effect("--mean", lambda d: len(d.rows), 9),
        "--name": Effect(
            "--name others",
            column("collection"),
            ["others"],
            "export {s}/both --collection {s}/minutes.yaml --collection {s}/others.yaml --mean",
        ),
        "--attribute": Effect(
            "--attribute hours",
            column("attribute"),
            ["hours"],
            "export {s}/people --collection {s}/people.yaml --cumulative",
        ),
        "--drawn-anew": Effect("--drawn-anew 0.9", column("std_error"), None, EACH),
        "--smooth": Effect("--smooth", lambda d: "smoothed_std_error" in d.rows[0], True),
        "--output": Effect("--output {t}/a.csv", there("a.csv"), True),
    },
    "compare": {
        "--collection": Effect(
            "--collection {s}/minutes.yaml", error, "", "compare {s}/minutes --epochs 0..4 --against 5..8"
        ),
        "--epochs": Effect("--epochs 1..2", out("compared"), "epochs 1..2 against 5..8"),
        "--against": Effect("--against 6", out("compared"), "epochs 0..4 against 6"),
        "--limit": Effect("--limit 1", lines("rose|fell"), 1, COMPARE.removesuffix(" --json")),
        "--output": Effect("--output {t}/a.csv", there("a.csv"), True),
        "--false-discoveries": Effect("--false-discoveries 0.5", out("false_discoveries"), 0.5),
        "--value": Effect("--value 3", out("chosen", 0, "value"), 3),
        "--group": Effect("--group {s}/groups.csv", lambda d: len(d.document["rows"]), 2),
        "--drawn-anew": Effect("--drawn-anew 0.9", out("rows", 0, "std_error"), None),
        "--name": Effect(
            "--name others",
            error,
            "",
            "compare {s}/both --collection {s}/minutes.yaml --collection {s}/others.yaml",
        ),
        "--attribute": Effect(
            "--attribute hours", error, "", "compare {s}/people --collection {s}/people.yaml"
        ),
    },
    "report": {
        "--page": Effect("--page {t}/mine.html", there("mine.html"), True, "report {s}/out"),
        "--truth": Effect(
            "--truth {s}/sim/truth.parquet",
            lambda d: (
                "True against estimated" in (d.folder / "a.html").read_text()
                and "beat" in (d.folder / "a.html").read_text()
                and "Unknown without" not in (d.folder / "a.html").read_text()
            ),
            True,
            "report {s}/out --page {t}/a.html",
        ),
        "--group": Effect(
            "--group {s}/parts.csv",
            lambda d: ">low<" in (d.folder / "a.html").read_text(),
            True,
            "report {s}/out --page {t}/a.html",
        ),
    },
    "simulate": {
        "--collection": Effect(
            "--collection {s}/one.yaml", error, "", SIMULATE.replace("--collection {s}/one.yaml", "")
        ),
        "--population": Effect("--population syn", error, "", SIMULATE.replace("--population zipf:1", "")),
        "--devices": Effect("--devices 7", out("reports"), 14, f"{SIMULATE} --json"),
        "--epochs": Effect("--epochs 3", lambda d: len(reports_in("x")(d)), 3),
        "--output": Effect("--output {t}/y", there("y/reports"), True),
        "--seed": Effect(
            "--seed 5", lambda d: next((d.folder / "x" / "reports").iterdir()).read_bytes(), None
        ),
        "--format": Effect(
            "--format parquet", lambda d: {n.rpartition(".")[2] for n in reports_in("x")(d)}, {"parquet"}
        ),
        "--compression": Effect(
            "--compression gzip", lambda d: {n.rpartition(".")[2] for n in reports_in("x")(d)}, {"gz"}
        ),
        "--truth": Effect("--truth", there("x/truth.parquet"), True),
        "--keep-last": Effect(
            "--keep-last",
            error,
            "",
            SIMULATE.replace("zipf:1", "panel:{s}/panel.csv:device,epoch,value").partition(" --devices")[0]
            + " --output {t}/x",
        ),
    },
    "inspect": {
        "--limit": Effect(
            "--limit 3",
            lambda d: len(d.out.splitlines()),
            3,
            "inspect {s}/sim/reports --collection {s}/one.yaml",
        ),
        "--collection": Effect(
            "--collection {s}/one.yaml",
            lambda d: "one" in re.findall(r"\bone\b", d.out),
            True,
            "inspect {s}/sim/reports",
        ),
    },
    "check": {
        "--devices": Effect("--devices 500", lines("with 500 devices"), 1, "check {s}/one.yaml"),
        "--spread": Effect("--spread 2h", lambda d: "spread=7200" in d.err, True, "check {s}/one.yaml"),
        "--against": Effect("--against {s}/newer.yaml", lambda d: d.code, 3, "check {s}/one.yaml"),
    },
    "explain": {
        "--devices": Effect("--devices 500", lines("with 500 devices"), 1, "explain {s}/one.yaml"),
    },
    "doctor": {
        "--output": Effect("--output {s}", lambda d: re.findall(r"free at (.*)", d.out), None, "doctor"),
        "--runner": Effect("--runner PrismRunner", lines("PrismRunner"), 1, "doctor"),
    },
    "definition": {
        "--output": Effect("--output {t}/a.json", there("a.json"), True, "definition {s}/one.yaml")
    },
    "init": {
        "--values": Effect("--values red,green", begun("domain"), ['{labels: ["red", "green"]}']),
        "--domain": Effect(
            "--domain {s}/labels.txt",
            begun("domain"),
            ['{labels: ["red", "green", "blue"]}'],
            INIT.replace("--values 12 ", ""),
        ),
        "--devices": Effect("--devices 500", lambda d: d.document["next"][0].split()[-1], "500"),
        "--epsilon-longitudinal": Effect("--epsilon-longitudinal 3", begun("epsilon_longitudinal"), ["3.0"]),
        "--epoch": Effect(
            "--epoch 2h --start 2031-01-05",
            begun("epoch"),
            ["{length: 2h, origin: 2031-01-05T00:00:00Z, count: 30}"],
        ),
        "--epochs": Effect(
            "--epochs 3 --start 2031-01-05",
            begun("epoch"),
            ["{length: 1d, origin: 2031-01-05T00:00:00Z, count: 3}"],
        ),
        "--start": Effect(
            "--start 2031-01-05", begun("epoch"), ["{length: 1d, origin: 2031-01-05T00:00:00Z, count: 30}"]
        ),
        "--name": Effect("--name mine", begun("name"), ["mine"]),
    },
    "plan": {
        "--values": Effect("--values 3", out("needs", "values"), 3),
        "--mean": Effect("--mean 100", out("needs", "maximum"), 100, PLAN.replace("--values 12 ", "")),
        "--domain": Effect(
            "--domain {s}/labels.txt", out("needs", "values"), 3, PLAN.replace("--values 12 ", "")
        ),
        "--population": Effect("--population zipf:1.1", out("needs", "drawn_anew"), None),
        "--devices": Effect("--devices 500", out("needs", "devices"), 500),
        "--epochs": Effect("--epochs 3", planned("participation", "of"), 3),
        "--drawn-anew": Effect("--drawn-anew 0", out("needs", "drawn_anew"), [0, 0]),
        "--epsilon-longitudinal": Effect(
            "--epsilon-longitudinal 3", planned("parameters", "epsilon_longitudinal"), 3.0
        ),
        "--epsilon-first": Effect("--epsilon-first 0.5", planned("parameters", "epsilon_first"), 0.5),
        "--cap": Effect("--cap 3", out("needs", "lifetime"), 3.0),
        "--cap-of": Effect("--cap-of inputs", out("needs", "inputs_cap"), 3.0, f"{PLAN} --cap 3"),
        "--lifetime-epsilon": Effect("--lifetime-epsilon 3", out("needs", "lifetime"), 3.0),
        "--target-error": Effect("--target-error 1", out("needs", "target"), 0.01),
        "--ordered": Effect("--ordered", out("asked"), "cumulative share"),
        "--target-quantile-error": Effect(
            "--target-quantile-error 6", out("asked"), "quantile", f"{PLAN} --ordered"
        ),
        "--target-mean-error": Effect("--target-mean-error 6", out("asked"), "mean", f"{PLAN} --ordered"),
        "--bits": Effect("--bits 1", out("meets"), False),
        "--rows": Effect("--rows 3", lines(r"^ *\d+  \w"), 3, PLAN.removesuffix(" --json")),
        "--columns": Effect("--columns", lines("of a report$"), 1, PLAN.removesuffix(" --json")),
        "--output": Effect("--output {t}/p.yaml", there("p.yaml"), True),
        "--row": Effect("--row 2", yaml_line("protocol"), None, WRITTEN),
        "--name": Effect("--name mine", yaml_line("name"), ["mine"], WRITTEN),
        "--epoch": Effect("--epoch 2h", lambda d: "2h" in (d.folder / "p.yaml").read_text(), True, WRITTEN),
        "--start": Effect(
            "--start 2031-01-05", lambda d: "2031-01-05" in (d.folder / "p.yaml").read_text(), True, WRITTEN
        ),
    },
}
BASES = {
    "run": RUN, "export": EXPORT, "compare": COMPARE, "report": "report {s}/out", "simulate": SIMULATE,
    "check": "check {s}/one.yaml", "explain": "explain {s}/one.yaml", "doctor": "doctor",
    "definition": "definition {s}/one.yaml", "plan": PLAN, "init": INIT,
    "inspect": "inspect {s}/sim/reports --collection {s}/one.yaml",
}  # fmt: skip


PLANNED = (
    "--values --mean --domain --population --devices --epochs --epsilon-longitudinal --cap --cap-of "
    "--lifetime-epsilon --target-error --rows --columns --output --row --name --epoch --start "
    "--ordered --target-quantile-error --target-mean-error"
)
"""Options of `plan` whose effects cli/test_plan.py asserts, or planning/test_ordered_plan.py."""
EVERYWHERE = {
    ("run", "--collection"),
    ("run", "--input"),
    ("run", "--output"),
    ("run", "--overwrite"),
    ("report", "--page"),
    ("simulate", "--collection"),
    ("simulate", "--population"),
    ("simulate", "--output"),
    *(("plan", option) for option in PLANNED.split()),
}
"""Options without which the tests of other files would fail."""


@pytest.mark.parametrize(
    ("command", "option"),
    [
        pytest.param(command, option, marks=[pytest.mark.thorough] if (command, option) in EVERYWHERE else [])
        for command, some in EFFECTS.items()
        for option in some
    ],
)
@pytest.mark.cases(4, 100)
def test_an_option_has_its_effect(site: Path, tmp_path: Path, command: str, option: str) -> None:
    effect = EFFECTS[command][option]
    base = effect.base or BASES[command]
    line = f"{base} {effect.added}"
    if command == "run" and option == "--overwrite":
        ended(RUN, site, tmp_path / "without")
        ended(RUN, site, tmp_path / "with")
        without = ended(base, site, tmp_path / "without")
    else:
        without = once(base, site)
    found, before = effect.seen(ended(line, site, tmp_path / "with")), effect.seen(without)
    assert found != before
    if effect.wanted is not None:
        assert found == effect.wanted


# --- the stream: its engine is built from the command line, and the test moves its clock


STREAM = "run --collection {s}/one.yaml --subscription projects/p/subscriptions/s --output {t}/out"


def typed(line: str, site: Path, folder: Path) -> dict[str, Any]:
    """The values that a command line gives the stream."""
    given: dict[str, Any] = {}

    def keep(_: object, values: dict[str, Any]) -> int:
        given.update(values)
        return 0

    with mock.patch.object(running, "run_over_messages", keep):
        assert ended(line, site, folder).code == 0
    return {
        name: value
        for name, value in given.items()
        if name not in {"files", "output", "subscription", "runner"}
    }


def after_the_end(bench: Bench) -> Any:
    """Results a minute after an epoch's end."""
    bench.send(0, range(10))
    bench.step(2)
    bench.until(HOUR + 60)
    return bench.told(0)


def before_the_end(bench: Bench) -> Any:
    bench.send(0, range(10))
    bench.step(2)
    bench.until(HOUR / 2)
    return bench.told(0)


def of_the_late(bench: Bench) -> Any:
    """Further results while one report after the other comes late, over ten minutes."""
    bench.send(0, range(10))
    bench.step(2)
    bench.until(HOUR + 60)
    for minute in range(10):
        bench.clock.now = HOUR + 120 + 60 * minute
        bench.send(0, range(100 + minute, 101 + minute))
        bench.step(2)
    return len(bench.told(0))


def landed_after(bench: Bench) -> Any:
    """Seconds after which a message is on disk."""
    began = bench.clock.now
    bench.send(0, range(10))
    bench.step()
    return round(bench.clock.now - began)


def landed_at_once(bench: Bench) -> Any:
    """Messages on disk after one step of five."""
    for name in range(5):
        bench.send(0, range(name, name + 1))
    bench.step()
    return bench.engine.messages if bench.engine else None


def taken_at_most(bench: Bench) -> Any:
    """Bytes that the source was asked for."""
    asked: list[int] = []
    original = bench.broker.pull

    def pull(limit_messages: int, limit_bytes: int, timeout_seconds: float) -> Any:
        asked.append(limit_bytes)
        return original(limit_messages, limit_bytes, timeout_seconds)

    with mock.patch.object(bench.broker, "pull", pull):
        bench.step()
    return asked[0]


def kept(bench: Bench) -> Any:
    """Landed reports of an epoch that was closed an hour ago."""
    bench.send(0, range(10))
    bench.step(2)
    bench.until(3 * HOUR)
    return bench.engine.status.segments if bench.engine else None


@dataclass(frozen=True)
class Streamed:
    """What is seen with an option."""

    added: str
    seen: Callable[[Bench], Any]
    without: Any
    wanted: Any


STREAMED = {
    "--watermark-delay": Streamed("--watermark-delay 5m", after_the_end, [("on_time", 10)], []),
    "--early-every": Streamed("--early-every 10m", before_the_end, [], [("early", 10)]),
    "--late-every": Streamed("--late-every 1h", of_the_late, 11, 1),
    "--land-every": Streamed("--land-every 20s", landed_after, 5, 20),
    "--land-messages": Streamed("--land-messages 2", landed_at_once, 5, 2),
    "--land-bytes": Streamed("--land-bytes 1234", taken_at_most, 64 << 20, 1234),
    "--keep-landed": Streamed("--keep-landed 1s", kept, 1, 0),
}


@pytest.mark.parametrize("option", STREAMED)
def test_an_option_of_the_stream_has_its_effect(site: Path, tmp_path: Path, option: str) -> None:
    effect = STREAMED[option]
    for name, line, wanted in (
        ("without", STREAM, effect.without),
        ("with", f"{STREAM} {effect.added}", effect.wanted),
    ):
        values = typed(line, site, tmp_path / name)
        defaults = {"watermark_delay": 30, "land_every": 5}
        bench = Bench(tmp_path / name / "stream", **{**defaults, **values})
        assert effect.seen(bench) == wanted, name


@pytest.mark.thorough
def test_the_options_of_a_watched_folder(site: Path, tmp_path: Path) -> None:
    """Page and metrics are there while it runs, and it ends by itself; without them nobody answers."""
    ports = [free_port(), free_port()]
    answers: list[int | None] = []
    reports = tmp_path / "reports"
    reports.mkdir()
    for path in (site / "sim" / "reports").glob("*0.pb"):
        (reports / path.name).write_bytes(path.read_bytes())

    def visit() -> None:
        for port, path in zip(ports, ("/metrics", "/"), strict=True):
            answers.append(answered(port, path, 200))

    line = "run --collection {s}/one.yaml --watch {t}/reports --output {t}/out --json"
    line += " --watermark-delay 1s --land-every 1s"
    visitor = threading.Thread(target=visit)
    visitor.start()
    done = ended(f"{line} --metrics {ports[0]} --serve {ports[1]} --stop-when-idle 2s", site, tmp_path)
    visitor.join()
    assert answers == [200, 200]
    assert done.code == 5, done.err
    assert done.record()["accounting"]["total"]["late"] == 300  # of an hour of 1970
    assert json.loads(done.out.splitlines()[-1])["event"] == "stopped"

    # Without the three it goes on until it is told to stop, and nobody listens.
    def tell() -> None:
        time.sleep(4)
        answers.extend(answered(port, "/", None) for port in ports)
        os.kill(os.getpid(), signal.SIGTERM)

    teller = threading.Thread(target=tell)
    teller.start()
    began = time.monotonic()
    assert ended(line, site, tmp_path).code == 5
    assert time.monotonic() - began >= 4
    teller.join()
    assert answers[2:] == [None, None]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def answered(port: int, path: str, wanted: int | None) -> int | None:
    """The status of a GET, as soon as it is the wanted one; None where nobody listens."""
    until = time.monotonic() + (PATIENCE if wanted else 0)
    while True:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            line.request("GET", path)
            status: int | None = line.getresponse().status
        except OSError:
            status = None
        finally:
            line.close()
        if status == wanted or time.monotonic() > until:
            return status
        time.sleep(0.05)


# --- what a run hands on


@pytest.mark.thorough
def test_how_often_a_file_is_tried(site: Path, tmp_path: Path) -> None:
    """A disk that fails twice: three attempts read all, two do not."""
    real = StoredFile._read_into
    for attempts, repeats in (("", 3000), (" --read-attempts 3", 3000), (" --read-attempts 2", 2700)):
        failures = iter([True, True])

        def fail(stored: StoredFile, buffer: memoryview, failures: Iterator[bool] = failures) -> int:
            if stored._path.endswith("again.pb") and next(failures, False):
                raise OSError("a bad cable")
            return real(stored, buffer)

        with mock.patch.object(StoredFile, "_read_into", fail):
            done = ended(f"{RUN}{attempts}", site, tmp_path / f"a{attempts.strip()[-1:]}")
        assert total("duplicate")(done) == (repeats,), attempts


@pytest.mark.thorough
def test_shards_and_what_waits_on_disk(site: Path, tmp_path: Path) -> None:
    from ldpbeam.transforms.stages import count_windows
    from ldpbeam.transforms.stages.epochs import once_per_report_id

    found = {}
    for name, added in (("without", ""), ("with", " --shard-bits 3 --spill-above 5")):
        with mock.patch.object(count_windows, "once_per_report_id", wraps=once_per_report_id) as once:
            assert ended(f"{RUN}{added}", site, tmp_path / name).code == 5
        bits, spill = once.call_args.args
        assert spill is not None
        found[name] = bits, spill.above
    assert found["without"] == (0, 16 << 20)
    assert found["with"] == (3, 5 << 20)


@pytest.mark.thorough
def test_the_collections_of_a_replay(site: Path, tmp_path: Path) -> None:
    for name, added, revised in (("without", "", 0), ("with", " --collection {s}/one.yaml", 4)):
        run = RUN.replace("one.yaml", "two.yaml").replace("{t}", str(tmp_path / name))
        assert ended(run, site, tmp_path / name).code == 5
        done = ended("replay {t}/out/rejects" + added, site, tmp_path / name)
        assert lines("revision")(done) == revised, done.err


# --- audits, of which only what would be audited is looked at


AUDIT = "audit --protocol {} --draws 100"
PARAMETERS: dict[str, tuple[str, str, Callable[[Collection], object], object]] = {
    "--protocol": ("grr --epsilon 1", "--protocol oue", lambda c: c.protocol_name, "oue"),
    "--size": ("grr --epsilon 1", "--size 4", lambda c: present(c.domain).size, 4),
    "--epsilon": ("grr --epsilon 1", "--epsilon 2", lambda c: c.parameters.epsilon, 2.0),
    "--epsilon-longitudinal": (
        "l_grr --epsilon-longitudinal 2 --epsilon-first 1", "--epsilon-longitudinal 3",
        lambda c: c.parameters.epsilon_longitudinal, 3.0,
    ),
    "--epsilon-first": (
        "l_grr --epsilon-longitudinal 2 --epsilon-first 1", "--epsilon-first 0.5",
        lambda c: c.parameters.epsilon_first, 0.5,
    ),
    "--g": (
        "loloha --epsilon-longitudinal 2 --epsilon-first 1", "--g 3", lambda c: c.parameters.g, 3,
    ),
    "--calibration": (
        "loloha --epsilon-longitudinal 2 --epsilon-first 1", "--calibration published",
        lambda c: c.parameters.calibration.name.lower(), "published",
    ),
    "--hash-family": (
        "loloha --epsilon-longitudinal 2 --epsilon-first 1", "--hash-family affine",
        lambda c: c.parameters.hash_family, "affine",
    ),
    "--d": ("dbitflip_pm --epsilon-longitudinal 2 --d 2", "--d 4", lambda c: c.parameters.d, 4),
    "--p2": ("rappor --epsilon-longitudinal 2 --q2 0.2", "--p2 0.8", lambda c: c.parameters.p2, 0.8),
    "--q2": ("rappor --epsilon-longitudinal 2 --p2 0.8", "--q2 0.2", lambda c: c.parameters.q2, 0.2),
    "--gamma": ("one_bit_rrpm --epsilon-longitudinal 2", "--gamma 0.3", lambda c: c.parameters.gamma, 0.3),
    "--segment": ("one_bit_rrpm --epsilon-longitudinal 2", "--segment 3", lambda c: c.parameters.segment, 3),
}  # fmt: skip


def audited(line: str, site: Path, folder: Path) -> Any:
    """Draws, client and collections of the audits that a command line asks for."""
    asked: list[Any] = []

    def none(tasks: Any) -> list[Any]:
        asked.extend(tasks)
        return []

    with mock.patch("ldpbeam.audit.parallel.audit_all", none):
        assert ended(line, site, folder).code == 0
    return asked


@pytest.mark.parametrize("option", PARAMETERS)
def test_a_parameter_of_an_audit(site: Path, tmp_path: Path, option: str) -> None:
    base, added, look, wanted = PARAMETERS[option]
    line = AUDIT.format(base)
    without, found = (audited(each, site, tmp_path) for each in (line, f"{line} {added}"))
    assert look(found[0].collection) == wanted
    assert look(without[0].collection) != wanted


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


# --- the demonstration, small, and the papers, of which only what would be computed is looked at


@pytest.mark.thorough
def test_the_options_of_the_demonstration(site: Path, tmp_path: Path) -> None:
    found = {}
    with mock.patch.object(demonstration, "_DEVICES", 3000), mock.patch.object(demonstration, "_EPOCHS", 2):
        for name, added, into in (
            ("first", "", "demo-output"),
            ("same", " --seed 1", "demo-output"),
            ("other", " --seed 2 --output {t}/mine", "mine"),
        ):
            assert ended(f"demo --quiet{added}", site, tmp_path / name).code == 0
            folder = tmp_path / name / into
            assert (folder / "index.html").is_file()
            found[name] = {p.name: p.read_bytes() for p in (folder / "reports").iterdir()}
    assert found["first"] == found["same"]
    assert not set(found["first"].values()) & set(found["other"].values())
    assert not (tmp_path / "other" / "demo-output").exists()


# --- the collector, as it is started, in this process


COLLECT = "collect --collection {s}/one.yaml --listen 127.0.0.1:PORT --output {t}/reports --json"


def collecting(line: str, site: Path, folder: Path, look: Callable[[int, Path], Any]) -> Any:
    """What somebody sees who visits a collector; then it is told to stop."""
    port = free_port()
    seen: list[Any] = []

    def visit() -> None:
        try:
            assert answered(port, "/healthz", 200) == 200
            seen.append(look(port, folder))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    visitor = threading.Thread(target=visit)
    visitor.start()
    done = ended(line.replace("PORT", str(port)), site, folder)
    visitor.join()
    assert done.code == 0, done.err
    return seen[0]


def posting(body: Callable[[Path], bytes], **headers: str) -> Callable[[int, Path], int]:
    def post(port: int, site: Path) -> int:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        line.request("POST", "/v1/reports", body(site), TYPE | headers)
        answer = line.getresponse()
        answer.read()
        line.close()
        return answer.status

    return post


def report_of(name: str) -> Callable[[Path], bytes]:
    def body(folder: Path) -> bytes:
        agreed = ldpbeam.load_collection(folder.parent / f"{name}.yaml")
        payload = bytes(agreed.protocol.device.payload_size)
        return report_pb2.Report(
            digest=agreed.digest, epoch=1, report_id=7, payload=payload
        ).SerializeToString()

    return body


def files_while_it_runs(port: int, folder: Path) -> int:
    """Finished files, some time after a report."""
    assert posting(report_of("one"))(port, folder) == 204
    time.sleep(2.6)
    return len(list((folder / "reports").glob("*.pb")))


def files_after_two(port: int, folder: Path) -> int:
    """Finished files that two reports make, which begin a file of their own where one is large enough."""
    assert [posting(report_of("one"))(port, folder) for _ in range(2)] == [204, 204]
    return len(list((folder / "reports").glob(".journal-*"))) + len(list((folder / "reports").glob("*.pb")))


def first_of_two_connections(port: int, folder: Path) -> bytes:
    time.sleep(0.3)  # the connection that asked whether it listens is gone by then
    with socket.create_connection(("127.0.0.1", port)) as first:
        first.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        first.recv(1000)
        with socket.create_connection(("127.0.0.1", port)) as second:
            second.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert second.recv(12) == b"HTTP/1.1 200"
            first.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            with suppress(ConnectionError):
                return first.recv(12)
            return b""


def held_open(content: bytes) -> Callable[[int, Path], bytes | None]:
    """What comes within two seconds on a connection that says no more; None: it is open, and nothing came."""

    def wait(port: int, folder: Path) -> bytes | None:
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(content)
            line.settimeout(2.2)
            with suppress(TimeoutError):
                return line.recv(12)
        return None

    return wait


def preflight(port: int, folder: Path) -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        line.request("OPTIONS", "/v1/reports", headers={"Origin": "https://a.example"})
        return line.getresponse().status
    finally:
        line.close()


BODILESS = (
    b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/x-protobuf\r\nContent-Length: 9\r\n\r\n"
)
COLLECTED: dict[str, tuple[str, Callable[[int, Path], Any], Any, Any]] = {
    "--collection": ("--collection {s}/two.yaml", posting(report_of("two")), 404, 204),
    "--file-every": ("--file-every 1s", files_while_it_runs, 0, 1),
    "--file-bytes": ("--file-bytes 1", files_after_two, 1, 2),
    "--max-body": ("--max-body 5", posting(report_of("one")), 204, 413),
    "--max-waiting": ("--max-waiting 5", posting(report_of("one")), 204, 429),
    "--max-connections": ("--max-connections 1", first_of_two_connections, b"HTTP/1.1 200", b""),
    "--body-timeout": ("--body-timeout 1s", held_open(BODILESS), None, b"HTTP/1.1 408"),
    "--idle-timeout": ("--idle-timeout 1s", held_open(b"POST"), None, b""),
    "--allow-origin": ("--allow-origin https://a.example", preflight, 403, 204),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("option", COLLECTED)
def test_an_option_of_the_collector_has_its_effect(site: Path, option: str) -> None:
    added, look, without, wanted = COLLECTED[option]
    place = site / f"collect{option}"
    assert collecting(COLLECT, site, place, look) == without
    assert collecting(f"{COLLECT} {added}", site, site / f"collected{option}", look) == wanted


def test_where_a_collector_listens_and_writes(site: Path, tmp_path: Path) -> None:
    assert ended(COLLECT.replace("--listen 127.0.0.1:PORT", ""), site, tmp_path).error == "usage"
    here = COLLECT.replace("PORT", "0")
    assert ended(here.replace("--output {t}/reports", ""), site, tmp_path).error == "E-USAGE-OPTION"
    topic = "--topic reports"
    assert ended(here.replace("--output {t}/reports", topic), site, tmp_path).error == "E-PUBSUB-MISSING"
    assert ended(f"{here} {topic}", site, tmp_path).error == "E-USAGE-OPTION"


# --- all of them


SINKS = (
    "tests/ldpbeam/engine/test_results.py::"
    "test_optional_sinks_have_every_result_before_the_accounting_names_it"
)
SOURCES = "tests/transforms/sources/test_choice.py::test_half_a_source_and_two_of_them_are_refused"
ELSEWHERE = {
    (
        "run",
        "--timestamp-attribute",
    ): "tests/dataflow/test_submit.py::test_a_dry_run_builds_the_job_and_starts_nothing",
    ("run", "--detach"): "tests/dataflow/test_submit.py::test_a_service_receives_the_job",
    ("run", "--job"): "tests/dataflow/test_submit.py::test_a_running_job_is_replaced_under_its_labels",
    (
        "run",
        "--pubsub-expansion",
    ): "tests/pipelines/test_beam_job.py::test_options_of_another_source_are_refused",
    ("run", "--kafka-servers"): SOURCES,
    ("run", "--kafka-expansion"): SOURCES,
    ("run", "--publish-topic"): SINKS,
    ("run", "--bigquery-table"): SINKS,
    (
        "simulate",
        "--topic",
    ): "tests/pubsub/test_simulate_topic.py::test_the_topic_gets_the_reports_that_files_hold",
}
"""What needs a service or a cluster: the test that sets it."""

HERE = {
    "run": {
        *EFFECTS["run"], *STREAMED,
        *("--watch", "--metrics", "--serve", "--stop-when-idle"),
        *("--read-attempts", "--shard-bits", "--spill-above"),
    },
    "collect": {*COLLECTED, "--listen", "--output", "--topic"},
    "audit": {*PARAMETERS, "--draws", "--quick", "--client"},
    "replay": {"--collection"},
    "demo": {"--output", "--seed"},
}  # fmt: skip


def declared() -> Iterator[tuple[str, str]]:
    """Command and option, of all that click knows but help, --quiet and --json."""
    for name, command in cli.commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name not in {
                "quiet",
                "json",
                "as_json",
                "help",
            }:
                yield name, max(parameter.opts, key=len)


def test_every_option_of_every_command_is_here() -> None:
    known = {(command, option) for command, some in EFFECTS.items() for option in some}
    known |= {(command, option) for command, some in HERE.items() for option in some} | set(ELSEWHERE)
    assert set(declared()) == known
    assert len(known) > 100


@pytest.mark.parametrize(("command", "option"), ELSEWHERE)
def test_what_is_seen_elsewhere_is_set_there(command: str, option: str) -> None:
    file, _, name = ELSEWHERE[command, option].partition("::")
    text = (REPOSITORY / file).read_text()
    assert f"def {name}(" in text
    assert option in text or option.removeprefix("--").replace("-", "_") in text


ALL = {
    **{command: base for command, base in BASES.items() if command != "compare"},
    "compare": COMPARE.removesuffix(" --json"),
    "plan": PLAN.removesuffix(" --json"),
    "init": INIT.removesuffix(" --json"),
    "docs": "docs planning",
    "run": RUN.removesuffix(" -q"),
    "replay": "replay {s}/out/rejects --collection {s}/one.yaml",
}  # fmt: skip
"""A line of each command that ends soon."""


@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=[pytest.mark.thorough] if one == "replay" else []) for one in ALL],
)
@pytest.mark.thorough
def test_quiet_and_json(site: Path, tmp_path: Path, command: str) -> None:
    if command == "replay":
        first = RUN.replace("one.yaml", "two.yaml").replace("{t}", str(tmp_path))
        assert ended(first, site, tmp_path).code == 5
        line = ALL[command].replace("{s}/out", str(tmp_path / "out"))
    else:
        line = ALL[command]
    plain = ended(line, site, tmp_path / "plain")
    quiet = ended(f"{line} --quiet", site, tmp_path / "quiet")
    document = ended(f"{line} --json", site, tmp_path / "json")
    assert plain.code == quiet.code == document.code
    assert plain.out
    assert quiet.out == ""
    assert document.document
    assert document.out != plain.out or command == "definition"
