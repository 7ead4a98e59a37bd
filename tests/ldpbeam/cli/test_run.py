"""The contract of ``ldpbeam run``: exit codes, one-line errors, and what lies in the output directory."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ldpbeam import admit
from ldpbeam.admission import ReportColumns
from ldpbeam.cli import main as command
from ldpbeam.cli import run as running
from ldpbeam.cli.shared import progress
from ldpbeam.client import Device
from ldpbeam.collection.file import load_collection
from ldpbeam.durable.document import parse_document
from ldpbeam.engine.status import Status
from ldpbeam.job.config import RunConfig
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.pipelines.running import collection, execute, fleet, write

YAML = """\
name: {name}
version: 1
owner: telemetry@example.com
domain: {{size: 11}}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {{length: 1h, count: 100}}
min_reports: {least}
"""
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command line in this process: exit code, standard output, standard error."""
    # On a busy machine a run takes longer than the ten seconds after which it says how far it is.
    monkeypatch.setattr(progress, "_EVERY", float("inf"))

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ldpbeam", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            command.main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return run


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection file and 300 devices' reports of two epochs, the second one scarce."""
    base = tmp_path_factory.mktemp("site")
    (base / "minutes.yaml").write_text(YAML.format(name="minutes", least=100))
    (base / "other.yaml").write_text(YAML.format(name="other", least=1))
    for name in ("minutes", "other"):
        agreed = load_collection(base / f"{name}.yaml")
        first, *_, last = fleet(agreed, 300, 2)
        scarce = ReportColumns(last.digest, 1, last.report_ids[:40], last.payloads[:40])
        write(base / name, agreed, [first, scarce], prefix=name)
        write(base / "both", agreed, [first, scarce], prefix=name)
    return base


@pytest.fixture
def arguments(site: Path, tmp_path: Path) -> list[object]:
    return [
        "run", "--collection", site / "minutes.yaml", "--input", site / "minutes" / "*",
        "--output", tmp_path / "out",
    ]  # fmt: skip


def one_line(err: str, code: str) -> None:
    assert err.count("\n") == 1, err
    assert err.startswith("ldpbeam: ")
    assert err.endswith(f"[{code}]\n")
    assert "Traceback" not in err


def test_a_clean_run_ends_with_0_and_says_what_it_did(
    call: Call, site: Path, arguments: list[object], tmp_path: Path
) -> None:
    """Exit code 0, the books in a line, never a bare ε; the runner that ran is on record."""
    code, out, err = call(*arguments, "--runner", "DirectRunner")
    assert (code, err) == (0, "")
    assert "read 168 = counted 168 + late 0 + duplicate 0 + rejected 0" in out
    assert "a first report tells ε ≤ 1, all reports about one value ε ≤ 2, 100 reports ε ≤ " in out
    record = parse_document((tmp_path / "out" / "run.json").read_text())
    assert (record["runner"], record["status"], record["exit_code"]) == ("FnApiRunner", "ok", 0)
    assert record["collections"][0]["name"] == "minutes"
    assert {"ldpbeam", "python", "apache_beam", "numpy", "numba"} <= set(record["versions"])
    assert record["timings"]["total_seconds"] > 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "accounting",
        "estimates",
        "latest",
        "rejects",
        "run.json",
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--colection", "x"], "Did you mean --collection?"),
        (["--direct_num_worker=2"], "Did you mean --direct_num_workers?"),
        (["stray"], "no option stray"),
        (["--streaming", "stray"], "Quote a pattern"),
        (["--early-every", "10m"], "--early-every is for messages and has no effect on files"),
        (["--streaming", "--watermark-delay", "5s"], "--watermark-delay is for the engine that reads"),
        (["--direct_num_workers=two"], "invalid int value"),
        (["--runner", "NoRunner"], "Unexpected pipeline runner"),
        (["--watch", "folder"], "more than one of them was given"),
    ],
)
def test_wrong_options_end_with_2(
    call: Call, arguments: list[object], tmp_path: Path, change: list[str], text: str
) -> None:
    (tmp_path / "out" / "estimates").mkdir(parents=True)
    (tmp_path / "out" / "estimates" / "old.parquet").touch()
    status, _, err = call(*arguments, *change)
    assert status == 2
    one_line(err, "E-USAGE-OPTION")
    assert text in err
    assert (tmp_path / "out" / "estimates" / "old.parquet").exists()


def test_a_cluster_is_given_no_option_of_the_local_engine(call: Call, arguments: list[object]) -> None:
    read = ["--subscription", "projects/project/subscriptions/reports", "--output", "out"]
    code, _, err = call("run", *arguments[1:3], *read, "--runner", "FlinkRunner", "--metrics=9100")
    assert code == 2
    one_line(err, "E-USAGE-OPTION")
    assert "--metrics is for the engine that reads --subscription on this machine" in err


def test_missing_things_end_with_2(call: Call, site: Path, arguments: list[object], tmp_path: Path) -> None:
    code, _, err = call(*arguments[:1], *arguments[3:])
    assert code == 2
    one_line(err, "E-USAGE-COLLECTION")
    code, _, err = call(*arguments, "--collection", site / "minutes.yaml")
    assert code == 2
    one_line(err, "E-USAGE-COLLECTION")
    code, _, err = call(*arguments[:3], "--input", tmp_path / "*.pb", "--output", tmp_path / "out")
    assert code == 2
    one_line(err, "E-USAGE-INPUT")
    code, _, err = call("run", "--output", tmp_path)
    assert code == 2
    assert "--input" in err
    assert call("run", "--help")[0] == 0


@pytest.mark.parametrize("what", ["thesis.txt", "rejects/data/x"])
def test_a_foreign_output_is_left_alone(
    call: Call, arguments: list[object], tmp_path: Path, what: str
) -> None:
    """Nothing that a run has not written is ever deleted; exit code 2."""
    path = tmp_path / "out" / what
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    code, _, err = call(*arguments)
    assert code == 2
    one_line(err, "E-USAGE-OUTPUT")
    assert path.read_text() == "precious"


def test_a_bad_collection_ends_with_3(
    call: Call, site: Path, arguments: list[object], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text((site / "minutes.yaml").read_text().replace("min_reports:", "min_report:"))
    code, _, err = call("run", "--collection", bad, *arguments[3:])
    assert code == 3
    one_line(err, "E-COLLECTION-KEY")
    assert "bad.yaml:9" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_an_internal_failure_ends_with_6(
    call: Call, arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with a code; where it comes from only when LDPBEAM_DEBUG=1."""
    from ldpbeam.transforms.stages.estimate import EstimateEpochs

    def fail(self: object, counted: object) -> list[object]:
        raise ZeroDivisionError("planted\nin two lines")

    monkeypatch.setattr(EstimateEpochs, "process", fail)
    monkeypatch.delenv("LDPBEAM_DEBUG", raising=False)
    code, _, err = call(*arguments)
    assert code == 6
    one_line(err, "E-INTERNAL")
    assert "planted" in err
    monkeypatch.setenv("LDPBEAM_DEBUG", "1")
    code, _, err = call(*arguments)
    assert code == 6
    assert "Traceback" in err
    assert err.endswith("[E-INTERNAL]\n")


@pytest.mark.thorough
def test_lost_reports_are_noticed(
    call: Call, arguments: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that drops reports unbalances the books: exit code 6 and no run.json."""
    from ldpbeam.transforms.sinks import publish
    from ldpbeam.transforms.sinks.estimates import WriteEpochs

    class Loses(WriteEpochs):
        def process(self, histogram: Any) -> Any:
            return list(super().process(histogram))[:1]

    monkeypatch.setattr(publish, "WriteEpochs", Loses)
    code, _, err = call(*arguments)
    assert code == 6
    one_line(err, "E-RUN-ACCOUNTING")
    assert not (tmp_path / "out" / "run.json").exists()


def test_running_again_gives_the_same_files(call: Call, arguments: list[object], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call(*arguments)[0] == 0
    before = {p.name: p.read_bytes() for p in (out / "estimates").iterdir()}
    (out / "index.html").write_text("old page")
    (out / "estimates" / f"minutes-{'0' * 16}-epoch-000001-r000.parquet").touch()
    assert call(*arguments)[0] == 2
    assert (out / "index.html").exists()
    assert call(*arguments, "--overwrite")[0] == 0
    assert call(*arguments)[0] == 0
    assert {p.name: p.read_bytes() for p in (out / "estimates").iterdir()} == before
    assert not (out / "index.html").exists()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "all belong to a collection that was not given. Give with --collection the very file"),
        (b"device,epoch,value\n1,1,7\n2,1,9\n", "in.pb: The file is text, which is not read; reports are"),
        (b"", "as empty_file. The file is empty, which counts as one record"),
        (bytes([3, 8, 255, 255]) * 4, "rejected as malformed"),
    ],
)
def test_a_run_that_counts_nothing_says_so_and_why(
    call: Call, site: Path, tmp_path: Path, content: bytes | None, text: str
) -> None:
    """Exit code 5, one line with the likely cause, no word of estimates; run.json says it too."""
    (tmp_path / "in.pb").write_bytes(content or b"")
    inputs = site / "minutes" if content is None else tmp_path / "in.pb"
    code, out, err = call(
        "run", "--collection", site / "other.yaml", "--input", inputs, "--output", tmp_path / "out"
    )
    assert code == 5
    assert "estimates in" not in out
    assert err.splitlines()[-1].startswith("ldpbeam: nothing was counted, no estimate was written: ")
    assert err.endswith("[E-RUN-NOTHING]\n")
    assert text in err
    record = parse_document((tmp_path / "out" / "run.json").read_text())
    assert (record["exit_code"], record["status"]) == (5, "nothing_counted")


@pytest.mark.parametrize(
    ("attribute", "fates", "text"),
    [
        ("", {"late": 9}, "--timestamp-attribute"),
        ("received", {"late": 9}, "Raise allowed_lateness"),
        ("", {}, "no record came"),
        ("", {"rejected.future_epoch": 5, "late": 4}, "5 of 9 were rejected as future_epoch"),
    ],
)
def test_a_stream_that_counted_nothing_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], attribute: str, fates: dict[str, int], text: str
) -> None:
    """The record of a stream that was all late has exit code 5, and the cause is named."""
    from ldpbeam.accounting import Accounting
    from ldpbeam.records.outcome import RunOutcome
    from ldpbeam.records.run_output import run_record
    from ldpbeam.records.run_record import RunRecord, StreamRecord
    from ldpbeam.records.run_sentences import why_nothing

    agreed = collection()
    config = RunConfig.parsed((agreed,), output=str(tmp_path), subscription="projects/p/subscriptions/s")
    now = StreamRecord(config.input.subscription, attribute, 0, 1, 1, 0, None)

    def stopped(entries: dict[str, int]) -> RunRecord:
        books = Accounting.from_entries([(((agreed.digest_hex, 0), what), n) for what, n in entries.items()])
        return run_record(config, RunOutcome(books, []), 1.0, status="stopped", stream=now)

    record = stopped({"read": sum(fates.values()), **fates})
    assert record.exit_code == 5
    assert text in (why_nothing(record) or "")
    assert why_nothing(stopped({"read": 1, "counted": 1})) is None
    running._line("published", stopped({"read": 2000, "counted": 2000}), Status())
    said = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ read 2,000 = counted 2,000 \+ .*\n"
    assert re.fullmatch(said, capsys.readouterr().out)


@pytest.mark.thorough
def test_what_a_cut_off_file_lacks(call: Call, site: Path, tmp_path: Path) -> None:
    simulation = ["simulate", "--collection", site / "minutes.yaml", "--population", "syn", "--epochs", 7]
    assert call(*simulation, "--devices", 300, "--output", tmp_path / "s", "--seed", 3)[0] == 0
    reports = tmp_path / "s" / "reports"
    cut = reports / "epoch-000003.pb"
    whole = cut.read_bytes()
    cut.write_bytes(whole[:-77])
    (reports / "epoch-000009.pb").write_bytes(b"\x02ab")  # refused for another reason
    run = ["run", "--collection", site / "minutes.yaml", "--input", reports, "--output", tmp_path / "o"]
    code, out, err = call(*run)
    assert code == 4
    assert "rejected 2" in out
    lines = [line for line in err.splitlines() if line.startswith("ldpbeam: ")]
    assert lines == [
        f"ldpbeam: {cut}: the file ends inside the record at byte 0, which lacks 77 bytes: no report of "
        "it is counted. Fetch the file again. [W-RUN-TRUNCATED]",
        "ldpbeam: minutes: of the epochs 0..6 nothing was counted in 3. Check that all files are there and "
        "whole. [W-RUN-GAP]",
    ]
    record = json.loads((tmp_path / "o" / "run.json").read_text())["accounting"]
    assert [(gap["first_epoch"], gap["last_epoch"]) for gap in record["gaps"]] == [(3, 3)]
    assert "truncated x 1 at position 0 of " in call("inspect", tmp_path / "o" / "rejects")[1]
    assert ", 77 bytes missing" in call("inspect", tmp_path / "o" / "rejects")[1]
    assert "truncated at position 0, 77 bytes missing: " in call("inspect", cut)[1]
    cut.unlink()
    (reports / "epoch-000009.pb").unlink()
    (reports / "epoch-000004.pb").unlink()
    assert call(*run)[::2] == (
        0,
        "ldpbeam: minutes: of the epochs 0..6 nothing was counted in 3..4. Check that all files are there "
        "and whole. [W-RUN-GAP]\n",
    )
    (reports / "epoch-000002.pb").unlink()
    (reports / "epoch-000001.pb").unlink()  # no row any more
    assert call(*run)[::2] == (0, "")


def test_copies_of_a_device_are_noticed(call: Call, site: Path, tmp_path: Path) -> None:
    """They report other values in 60 epochs; that no payload differs has a chance below 10⁻¹²."""
    agreed = load_collection(site / "other.yaml")
    Device.open(agreed, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    one, other = (Device.open(agreed, tmp_path / name) for name in "ab")
    sent = [present(each.report(v, e)) for e in range(60) for each, v in ((one, 1), (other, 9))]
    write(tmp_path / "in", agreed, admit(agreed, sent).admitted)
    run = ["run", "--collection", site / "other.yaml", "--input", tmp_path / "in"]
    code, _, err = call(*run, "--output", tmp_path / "o")
    assert code == 4
    found = re.search(r"other: (\d+) reports in (\d+) epochs \(the first is \d+\) came .*W-RUN-COPIES", err)
    assert found is not None
    assert found[1] == found[2]


def test_what_a_population_file_holds_is_said(call: Call, site: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("who;when;value\n1;0;3\n1;0;3\n2;0;\n2;1;4\n")
    simulation = ["simulate", "--collection", site / "minutes.yaml", "--output", tmp_path / "s"]
    code, out, _ = call(*simulation, "--population", f"panel:{file}:who,when,value")
    notes = parse_document((tmp_path / "s" / "simulation.json").read_text())["notes"]
    assert (code, len(notes)) == (0, 2)
    assert out.splitlines() == [*notes, f"2 reports of 2 devices in {tmp_path / 's' / 'reports'}"]


@pytest.mark.parametrize("content", [None, b"PAR1 torn", "rejects"])
@pytest.mark.cases(1)
def test_a_truth_that_is_none_is_refused(
    call: Call, output: Path, tmp_path: Path, content: bytes | str | None
) -> None:
    truth = tmp_path / "truth.parquet"
    if isinstance(content, bytes):
        truth.write_bytes(content)
    elif content:
        pq.write_table(pa.table({"epoch": [1]}), truth)
    code, _, err = call("report", output, "--page", tmp_path / "page.html", "--truth", truth)
    assert code == 2
    one_line(err, "E-USAGE-RESULTS")
    assert not (tmp_path / "page.html").exists()


def test_progress_says_nothing_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 11))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with progress.Bar("run", 30, "bytes") as bar:
        for done in (1, 1, 1, 2, 30, 30, 30):
            bar.reach(done, 30)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"run: {done} of 30 bytes" for done in (1, 2, 30)]


@pytest.fixture(scope="session")
def output(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two collections in one run."""
    agreed = [load_collection(site / f"{name}.yaml") for name in ("minutes", "other")]
    return execute(agreed, site / "both", tmp_path_factory.mktemp("output")).output


def test_the_output_is_readable_with_pyarrow_alone(output: Path) -> None:
    """With the collection and its levels in the metadata; scarce epochs are withheld."""
    rows = ds.dataset(output / "estimates", format="parquet").to_table().to_pylist()
    assert len(rows) == 2 * 2 * 11
    assert {(row["collection"], row["epoch"]) for row in rows} == set(product(("minutes", "other"), (0, 1)))
    numbers = ("estimate", "std_error", "ci_low", "ci_high", "ci_low_all", "ci_high_all", "consistent")
    for row in rows:
        withheld = row["collection"] == "minutes" and row["epoch"] == 1
        assert row["n"] == (128, 40)[row["epoch"]]
        assert row["status"] == ("insufficient_reports" if withheld else "ok")
        assert all((row[name] is None) == withheld for name in numbers)
    for path in (output / "estimates").iterdir():
        metadata = ds.dataset(path).schema.metadata
        about = json.loads(metadata[b"ldpbeam.collection"])
        assert path.name.startswith(f"{about['name']}-{about['digest']}-epoch-")
        assert about["parameters"]["epsilon_longitudinal"] == 2.0
        assert 0.99 < float(metadata[b"ldpbeam.epsilon_first_report"]) <= 1.0
        assert 1.99 < float(metadata[b"ldpbeam.epsilon_per_memoised_input"]) <= 2.0


def test_hashes_in_the_record_are_the_files(output: Path) -> None:
    """run.json lists every file with its size and SHA-256, and no other."""
    record = json.loads((output / "run.json").read_text())
    listed = {f["path"]: f for f in record["files"]}
    found = [p for part in ("accounting", "estimates", "rejects") for p in (output / part).iterdir()]
    assert sorted(listed) == sorted(p.relative_to(output).as_posix() for p in found)
    for path in found:
        line, data = listed[path.relative_to(output).as_posix()], path.read_bytes()
        assert (line["bytes"], line["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.thorough
def test_the_command_line_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import ldpbeam.cli.main;"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(REPOSITORY)], capture_output=True, text=True, check=True
    )
    heavy = {"apache_beam", "numba", "scipy", "pyarrow", "numpy", "yaml", "jinja2", "altair"}
    heavy |= {"google.protobuf", "google.cloud.pubsub_v1"}  # google itself is a namespace that pip makes
    assert heavy & set(done.stdout.split()) == set()
