"""Options of commands whose effect no other test of their command sees."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import ldpbeam
from ldpbeam.cli.main import cli
from ldpbeam.cli.shared.options import given
from ldpbeam.job.option import Over
from ldpbeam.transforms.sources import files as source_files
from ldpbeam.wire import codec, report_pb2
from tests.ldpbeam.cli.calling import call, told

YAML = """\
name: one
domain: {size: 11}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h, count: 100}
min_reports: 1
"""


@pytest.fixture(scope="module", autouse=True)
def small_files_expand() -> Iterator[None]:
    """The limit of expansion holds from the first byte on, not from a megabyte on."""
    with mock.patch.object(source_files, "FREE_BYTES", 0):
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, and four epochs of reports.

    Epoch 0 is there twice; in epoch 1 a third of the records has a wrong payload; each report of epoch 3 is
    there ten times, well compressed.
    """
    place = tmp_path_factory.mktemp("site")
    (place / "one.yaml").write_text(YAML)
    fleet = ("--population", "zipf:1", "--devices", 300, "--epochs", 4)
    told("simulate", "--collection", place / "one.yaml", *fleet, "--output", place / "sim")
    first, second, *_, last = sorted((place / "sim" / "reports").iterdir())
    (place / "sim" / "reports" / "again.pb").write_bytes(first.read_bytes())
    digest = ldpbeam.load_collection(place / "one.yaml").digest
    bad = [report_pb2.Report(digest=digest, epoch=1, report_id=i, payload=b"1234567") for i in range(1, 151)]
    content = second.read_bytes() + b"".join(codec.framed(one.SerializeToString()) for one in bad)
    second.write_bytes(content)
    last.with_suffix(".pb.gz").write_bytes(gzip.compress(last.read_bytes() * 10))
    last.unlink()
    return place


def books(site: Path, output: Path, *options: str) -> Any:
    """The accounting of a run over all reports."""
    asked = ("--collection", site / "one.yaml", "--input", site / "sim" / "reports", "--output", output)
    done = call("run", *asked, "-q", *options)
    assert done.exit_code in (4, 5), done.output
    return json.loads((output / "run.json").read_text())["accounting"]


@pytest.fixture(scope="module")
def plain(site: Path) -> Any:
    """Those of a run without an option."""
    return books(site, site / "plain")


EFFECTS: dict[str, Callable[[Any], bool]] = {
    "--max-expansion=1": lambda found: "expansion_limit" in found["total"]["rejected"],
    "--max-epochs=1": lambda found: sum(epoch["counted"] > 0 for epoch in found["epochs"]) == 1,
    "--not-after=1970-01-01T00:30:00Z": lambda found: "future_epoch" in found["total"]["rejected"],
    "--no-dedup": lambda found: found["total"]["duplicate"] == 0,
    "--max-error-fraction=0.9": lambda found: not any(epoch["withheld"] for epoch in found["epochs"]),
}


@pytest.mark.parametrize("option", EFFECTS)
@pytest.mark.cases(2)
def test_an_option_of_run_has_its_effect(site: Path, plain: Any, tmp_path: Path, option: str) -> None:
    assert not EFFECTS[option](plain)
    assert EFFECTS[option](books(site, tmp_path / "out", option))


@pytest.mark.parametrize(
    ("option", "suffix"), [("--format=parquet", ".parquet"), ("--compression=gzip", ".gz")]
)
def test_simulate_writes_the_files_that_are_asked_for(
    site: Path, tmp_path: Path, option: str, suffix: str
) -> None:
    fleet = ("--population", "zipf:1", "--devices", 30, "--epochs", 2)
    told("simulate", "--collection", site / "one.yaml", *fleet, "--output", tmp_path, option)
    assert {path.suffix for path in (tmp_path / "reports").iterdir()} == {suffix}


def test_inspect_shows_so_many_reports_and_decodes_them(site: Path) -> None:
    assert len(told("inspect", site / "sim" / "reports", "--limit", 3).splitlines()) == 3
    assert "reports, one" in told("inspect", site / "sim" / "reports", "--collection", site / "one.yaml")


def test_draws_and_clients_of_an_audit(site: Path) -> None:
    def tasks(*arguments: object) -> list[Any]:
        """The audits that are asked for; none is made."""
        with mock.patch("ldpbeam.audit.parallel.audit_all", return_value=()) as audit_all:
            told("audit", *arguments)
        return list(audit_all.call_args.args[0])

    def draws(*more: object) -> int:
        return max(task.draws for task in tasks(site / "one.yaml", *more))

    assert (draws(), draws("--draws", 200)) == (100_000, 200)
    assert draws("--quick") < 100_000
    assert len(tasks("--quick")) < len(tasks())
    assert "./mine" not in str(tasks(site / "one.yaml"))
    assert "./mine" in str(tasks(site / "one.yaml", "--client", "./mine"))


def test_options_over_files_say_nothing_about_messages() -> None:
    some = ["--max-epochs", "5", "--not-after", "2026-01-01T00:00:00Z", "--overwrite"]
    typed, plain = (
        cli.commands["run"].make_context("run", ["--collection", "c", "--output", "o", *more])
        for more in (some, [])
    )
    assert given(typed, {Over.MESSAGES}) == given(plain, {Over.MESSAGES})
    there = given(typed, {Over.FILES})
    assert (there["max_epochs"], there["not_after"], there["overwrite"]) == (5, 1_767_225_600, True)
