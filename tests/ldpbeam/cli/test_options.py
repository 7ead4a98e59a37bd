"""Every option of every command changes something: each is set, and its effect is seen.

The options come from click itself. Each has an entry that runs its command without it and with it, and says
what differs; an option without an entry fails, as does one whose entry sees no difference. What needs a
service or a cluster is seen by a test elsewhere, which is named.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import ldpbeam
from ldpbeam.cli.main import cli
from ldpbeam.transforms.sources import files as source_files
from ldpbeam.wire import codec, report_pb2

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
    """What an option adds to a command line, what is looked at, and what is seen with it."""

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
    (place / "values.csv").write_text("value\n" + "".join(f"{i % 3}\n" for i in range(60)))
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


INIT = "init {t}/c.yaml --values 12 --devices 20000 --json"


def begun(name: str) -> Seen:
    """A line of the collection that init writes; nothing where it writes none."""

    def look(done: Ended) -> Any:
        path = done.folder / "c.yaml"
        return re.findall(rf"^{name}: (.*)$", path.read_text(), re.M) if path.exists() else None

    return look


def planned(*path: str) -> Seen:
    return out("recommended", *path)


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
    },
    "simulate": {
        "--devices": Effect("--devices 7", out("reports"), 14, f"{SIMULATE} --json"),
        "--epochs": Effect("--epochs 3", lambda d: len(reports_in("x")(d)), 3),
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
        "--against": Effect("--against {s}/newer.yaml", lambda d: d.code, 3, "check {s}/one.yaml"),
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
        "--drawn-anew": Effect("--drawn-anew 0", out("needs", "drawn_anew"), [0, 0]),
        "--epsilon-first": Effect("--epsilon-first 0.5", planned("parameters", "epsilon_first"), 0.5),
        "--bits": Effect("--bits 1", out("meets"), False),
    },
}
BASES = {
    "run": RUN, "export": EXPORT, "compare": COMPARE, "report": "report {s}/out", "simulate": SIMULATE,
    "check": "check {s}/one.yaml", "explain": "explain {s}/one.yaml",
    "definition": "definition {s}/one.yaml", "plan": PLAN, "init": INIT,
    "inspect": "inspect {s}/sim/reports --collection {s}/one.yaml",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command, some in EFFECTS.items() for option in some],
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
