"""The flex template: metadata as the command line has it, its launcher, and one image for all."""

from __future__ import annotations

import json
import logging
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from ldpbeam.cli.main import cli
from ldpbeam.pipelines.deploy.dataflow import FOLDER, LEFT_OUT, arguments, generated, options
from tests.dataflow import conftest
from tests.dataflow.service import OPTIONS, Graph, serving

METADATA: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text("utf-8"))
PARAMETERS: dict[str, dict[str, Any]] = {p["name"]: p for p in METADATA["parameters"]}
VALUES = {
    "collection": ["gs://my-bucket/a.yaml", "a.yaml", "gs://my-bucket/a.yaml,gs://my-bucket/b.yaml"],
    "subscription": ["projects/my-project/subscriptions/reports"],
    "output": ["gs://my-bucket/results", "gs://my-bucket/a/b/"],
    "dedup": ["true", "false"],
    "max_error_fraction": ["0", "0.25", "1", "1.0"],
    "timestamp_attribute": ["received", "received-at"],
    "early_every": ["90s", "1d12h"],
    "late_every": ["5m"],
    "shard_bits": ["0", "3", "8"],
    "job": ["a", "minutes-2"],
    "publish_topic": ["projects/my-project/topics/estimates"],
    "bigquery_table": ["my-project:ldpbeam.estimates", "my-project.ldpbeam.estimates"],
    "sdk_container_image": ["europe-west1-docker.pkg.dev/my-project/ldpbeam/worker:1"],
}
REFUSED = {
    "collection": ["", "a,,b", "a b"],
    "subscription": ["reports", "projects/my-project/topics/reports"],
    "output": ["results", "gs://my-bucket", "s3://my-bucket/results"],
    "dedup": ["yes", ""],
    "max_error_fraction": ["1.5", "-1", "10%"],
    "timestamp_attribute": ["a b"],
    "early_every": ["10", "5 m"],
    "late_every": ["soon"],
    "shard_bits": ["9", "-1", "33"],
    "job": ["a/b"],
    "publish_topic": ["estimates", "projects/my-project/subscriptions/estimates"],
    "bigquery_table": ["estimates", "my-project:estimates"],
    "sdk_container_image": ["a b"],
}


def test_the_metadata_is_what_the_command_line_gives() -> None:
    """Written by ``python -m ldpbeam.pipelines.deploy.dataflow``."""
    assert {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")} == generated()


def test_every_option_is_a_parameter_or_left_out_for_a_reason() -> None:
    assert set(options()) == set(PARAMETERS) - {"sdk_container_image"} | set(LEFT_OUT)
    assert set(PARAMETERS) & set(LEFT_OUT) == set()
    assert "sdk_container_image" in PipelineOptions([]).get_all_options()


def matches(name: str, value: str) -> bool:
    return all(re.search(pattern, value) for pattern in PARAMETERS[name].get("regexes", ()))


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_a_pattern_lets_through_the_command_line_takes(name: str, tmp_path: Path) -> None:
    assert [value for value in VALUES[name] if not matches(name, value)] == []
    assert [value for value in REFUSED[name] if matches(name, value)] == []
    if name in options():
        for value in VALUES[name]:
            if "://" not in value:
                _, *given, _ = arguments([f"--{name}={value}"], tmp_path)
                context = cli.commands["run"].make_context("run", [*given, "--output=o"])
                assert context.args == []


def test_arguments_of_a_launcher_become_those_of_the_command_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = [
        "--collection=a.yaml,b.yaml", "--dedup=false", "--early_every=", "--job=a",
        "--max_error_fraction=0.2", "--sdk_container_image=i", "--runner=DataflowRunner", "--streaming",
        "--of_tomorrow=1",
    ]  # fmt: skip
    with caplog.at_level(logging.WARNING):
        made = arguments(given, tmp_path)
    assert made == [
        "run", "--collection=a.yaml", "--collection=b.yaml", "--no-dedup", "--job=a",
        "--max-error-fraction=0.2", "--runner=DataflowRunner", "--sdk_container_image=i", "--streaming",
        "--sdk_location=container", "--detach",
    ]  # fmt: skip
    assert "--of_tomorrow=1" in caplog.text
    assert arguments(["--dedup=true"], tmp_path) == ["run", "--dedup", "--detach"]


@pytest.mark.thorough
def test_the_launcher_writes_the_job_as_the_service_wants_it(
    objects: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: list[Any]
) -> None:
    """The service starts the file that is written under --template_location."""
    objects["mem://bucket/a.yaml"] = conftest.YAML.encode()
    objects["mem://bucket/b/a.yaml"] = conftest.YAML.replace("minutes", "others").encode()
    image = "europe-west1-docker.pkg.dev/my-project/ldpbeam/worker:1"
    with serving() as service:
        given = [
            "--collection=mem://bucket/a.yaml,mem://bucket/b/a.yaml",
            "--subscription=projects/my-project/subscriptions/reports",
            "--output=gs://my-bucket/results",
            "--early_every=10m",
            f"--sdk_container_image={image}",
            "--runner=DataflowRunner",
            *service.options(tmp_path / "staged")[len(OPTIONS) :],
            "--project=my-project",
            "--region=europe-west1",
            "--job_name=minutes",
            f"--template_location={tmp_path / 'job_object'}",
        ]
        monkeypatch.setattr(sys, "argv", ["launch.py", *given])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(FOLDER / "launch.py"), run_name="__main__")
        assert service.calls == []
    assert (end.value.code, offline) == (0, [])
    job = json.loads((tmp_path / "job_object").read_text())
    assert job["type"] == "JOB_TYPE_STREAMING"
    assert job["environment"]["sdkPipelineOptions"]["options"]["sdk_location"] == "container"
    graph = Graph.staged(tmp_path / "staged")
    assert graph.images() == {image}
    assert {"Collect/Count/Count", "Collect/Write/Files"} <= graph.labels
    assert not any("main_session" in path.name for path in (tmp_path / "staged").iterdir())
