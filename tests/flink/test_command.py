"""The command line on Flink: files, and a job that is left to its cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flink.cluster import Cluster, Worker, until
from tests.flink.fetch import FLINK_MINOR, job_server
from tests.waiting import PATIENCE

pytestmark = pytest.mark.flink

YAML = """\
name: minutes
version: 1
domain: {size: 11}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h, origin: 2026-01-01T00:00:00Z, count: 100}
allowed_lateness: 36500d
min_reports: 100
"""
STRINGS = YAML.replace("name: minutes", "name: words").replace(
    "{size: 11}", "{strings: {max_length: 4, symbols: abcd}}"
)
DISTRIBUTION = YAML.replace("name: minutes", "name: places\nhash_family: interval").replace(
    "{size: 11}", "{size: 60, ordered: true}"
)
COLLECTIONS = ("minutes", "places", "words")


def ldpbeam(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ldpbeam.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frequencies, distributions and strings, their reports, and what the local runner makes of them."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "words.csv").write_text("text\n" + "ab\nda\ncab\nab\nb\n" * 600)
    for name, text in (("minutes", YAML), ("places", DISTRIBUTION), ("words", STRINGS)):
        (folder / f"{name}.yaml").write_text(text)
        held = ["zipf:1.1", "--devices", 300] if name != "words" else [f"csv:{folder / 'words.csv'}:text"]
        sent = ["--population", *held, "--epochs", 3, "--output", folder / name]
        simulated = ldpbeam("simulate", "--collection", folder / f"{name}.yaml", *sent)
        assert simulated.returncode == 0, simulated.stderr
    done = ldpbeam(*over_files(folder, folder / "local"))
    assert done.returncode == 0, done.stderr
    return folder


def over_files(folder: Path, output: Path) -> list[object]:
    given: list[object] = []
    for name in COLLECTIONS:
        given += ["--collection", folder / f"{name}.yaml", "--input", folder / name / "reports" / "*"]
    return ["run", *given, "--output", output]


def on_flink(master: str) -> list[object]:
    jar = job_server()
    flink = ["--runner", "FlinkRunner", f"--flink_version={FLINK_MINOR}", f"--flink_master={master}"]
    return [*flink, f"--flink_job_server_jar={jar}"]


def results(output: Path) -> Any:
    """Estimates and summaries without their revisions and panes, and how many reports were counted."""
    patterns = [*(f"estimates/{name}-*" for name in COLLECTIONS), "summaries/places-*", "summaries/words-*"]
    found = [[without_revision(path) for path in sorted(output.glob(one))] for one in patterns]
    assert [len(tables) for tables in found] == [3] * 5
    assert all(table["cumulative_ci_low"].null_count == 0 for table in found[1])
    assert all({"ab", "da"} <= set(table["label"].to_pylist()) for table in found[2])
    return found, accounting(output)


def without_revision(path: Path) -> Any:
    return pq.read_table(path).drop_columns(["pane", "revision"]).replace_schema_metadata(None)


def accounting(output: Path) -> Any:
    found = [json.loads(path.read_text()) for path in sorted((output / "accounting").glob("*-epoch-*.json"))]
    return [(each["epoch"], each["accounting"]["counted"]) for each in found]


def test_files_on_flink_give_what_the_local_runner_gives(folder: Path) -> None:
    done = ldpbeam(*over_files(folder, folder / "flink"), *on_flink("[local]"))
    assert done.returncode == 0, done.stderr
    assert results(folder / "flink") == results(folder / "local")
    record = json.loads((folder / "flink" / "run.json").read_text())
    assert (record["status"], record["runner"]) == ("ok", "FlinkRunner")
    assert "read 10,800 = counted 10,800" in done.stdout


@pytest.mark.slow
def test_detached_job_goes_on_when_the_command_has_ended(
    folder: Path, cluster: Cluster, worker: Worker
) -> None:
    """Its job server ends with the command; the cluster must have the job by then."""
    output = folder / "detached"
    pool = ["--environment_type=EXTERNAL", f"--environment_config=127.0.0.1:{worker.port}"]
    streaming = ["--streaming", "--detach", "--job_name=detached", "--job", "detached"]
    done = ldpbeam(*over_files(folder, output), *on_flink(cluster.address), *pool, *streaming)
    assert done.returncode == 0, done.stderr
    record = json.loads((output / "run.json").read_text())
    assert record["status"] == "detached"
    job = record["job"]
    assert job["cluster_id"] == cluster.job("detached")
    assert job["cluster"] == f"http://{cluster.address}"
    assert done.stdout.splitlines()[-2] == f"{job['cluster_id']} on {job['cluster']}"
    until("the end of the job", lambda: cluster.state(job["cluster_id"]) == "FINISHED" or None)
    assert results(output) == results(folder / "local")
