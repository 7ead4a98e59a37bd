"""What a worker needs is sent along: the project's wheel, its dependencies, and nothing of this checkout."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.dataflow.conftest import YAML, Call
from tests.dataflow.service import Graph, serving
from tests.dataflow.store import ObjectStore
from tests.pipelines.running import collection, fleet, write

PACKAGES = ("ldpbeam", "transforms", "pipelines", "simulators")
WORKER = Path(__file__).with_name("worker.py")
ELSEWHERE = [
    "--publish_topic", "projects/my-project/topics/estimates",
    "--bigquery_table", "my-project:ldpbeam.estimates",
]  # fmt: skip
LACKED = [
    "--requirements_file", str(REPOSITORY / "pipelines/deploy/dataflow/requirements.txt"),
    "--requirements_cache", "skip",
]  # fmt: skip
NOBODY = {"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"}
"""Credentials that clients are made with and that open nothing."""


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def tracked() -> list[str]:
    """What git tracks or would take of the packages, as they are installed."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PACKAGES]
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    found = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    files = [name for name in found.split("\0") if name and (REPOSITORY / name).is_file()]
    return [name if name.startswith("ldpbeam/") else f"ldpbeam/{name}" for name in files]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as the page says, from a copy, so that nothing is left in the checkout."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "DESCRIPTION.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source / name)
    for name in PACKAGES:
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, source / name, symlinks=True, ignore=without)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, source)
    (built,) = dist.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the unpacked wheel."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    return target


@pytest.fixture
def staged(call: Call, stream: list[object], wheel: Path, tmp_path: Path) -> Path:
    """What a service was sent with a job."""
    folder = tmp_path / "staged"
    with serving("JOB_STATE_RUNNING") as service:
        options = [*service.options(folder), "--extra_package", wheel, *LACKED, *ELSEWHERE, "--detach"]
        # In memory, because the command notes in the output which job it has submitted.
        code, _, err = call(*stream, "--output", "mem://my-bucket/results", *options)
    assert (code, err) == (0, "")
    assert json.loads(ObjectStore.objects.pop("mem://my-bucket/results/run.json"))["status"] == "detached"
    (folder / "job.json").write_text(json.dumps(service.jobs[0]))
    return folder


def work(paths: list[Path], *pipelines: Path) -> subprocess.CompletedProcess[str]:
    """Load pipelines where only these folders are known."""
    folders = ":".join(map(str, paths))
    command = [sys.executable, "-I", "-S", str(WORKER), folders, *map(str, pipelines)]
    credentials = pipelines[0].with_name("nobody.json")
    credentials.write_text(json.dumps(NOBODY))
    known = {"GOOGLE_APPLICATION_CREDENTIALS": str(credentials), "GOOGLE_CLOUD_PROJECT": "my-project"}
    environment = {**os.environ, **known}
    return subprocess.run(command, capture_output=True, text=True, cwd=paths[0], env=environment, check=False)


@pytest.mark.thorough
def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    ours = [name for name in tracked() if not name.endswith("/Dockerfile.dockerignore")]
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert [name for name in ours if name not in held and not name.endswith("/Dockerfile")] == []
    top = {name.partition("/")[0] for name in held}
    assert {name for name in top if not name.endswith(".dist-info")} == {"ldpbeam"}


@pytest.mark.thorough
def test_the_wheel_is_staged_and_nothing_is_pickled_from_main(staged: Path, wheel: Path) -> None:
    artifacts = Graph.staged(staged).artifacts()
    texts = {"extra_packages.txt", "requirements.txt", "submission_environment_dependencies.txt"}
    assert set(artifacts) == {wheel.name, *texts}
    path, digest = artifacts[wheel.name]
    assert path.parent == staged
    assert path.read_bytes() == wheel.read_bytes()
    assert digest == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert artifacts["extra_packages.txt"][0].read_text().split() == [wheel.name]
    job: dict[str, Any] = json.loads((staged / "job.json").read_text())
    options = job["environment"]["sdkPipelineOptions"]["options"]
    assert options["save_main_session"] is False
    (pool,) = job["environment"]["workerPools"]
    assert {package["name"] for package in pool["packages"]} == {path.name for path, _ in artifacts.values()}


@pytest.mark.thorough
def test_the_wheel_and_its_requirements_are_what_workers_lack(wheel: Path) -> None:
    """A worker installs an extra package without its extras; Beam's image has no numba."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        wanted = message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []
    always = {requirement for requirement in wanted if ";" not in requirement}
    assert {re.split(r"[^\w-]", requirement)[0] for requirement in always} == {"protobuf", "PyYAML"}
    asked = (REPOSITORY / "pipelines/deploy/dataflow/requirements.txt").read_text().splitlines()
    extra = {requirement.partition(";")[0].strip() for requirement in wanted if "pipeline" in requirement}
    assert {line for line in asked if not line.startswith("#")} < extra
    assert "apache-beam==2.77.*" in extra


@pytest.mark.thorough
def test_workers_load_every_function_from_the_wheel_alone(
    call: Call, agreed: Path, staged: Path, installed: Path, tmp_path: Path
) -> None:
    assert agreed.read_text() == YAML
    batch = tmp_path / "batch"
    reports = write(tmp_path / "reports", collection(), fleet(collection(), 20, 1))
    with serving() as service:
        options = [*service.options(batch), "--template_location", batch / "template.json"]
        output = ["--output", "gs://my-bucket/results", "--runner", "DataflowRunner"]
        assert call("run", "--collection", agreed, "--input", reports, *output, *options)[0] == 0
    pipelines = (staged / "pipeline.pb", batch / "pipeline.pb")
    for pipeline in pipelines:
        assert str(REPOSITORY).encode() not in pipeline.read_bytes()

    libraries = Path(sysconfig.get_paths()["purelib"])
    done = work([installed, libraries], *pipelines)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len([name for name in said["classes"] if name.startswith("ldpbeam.")]) >= 18
    assert [name for name in said["files"] if not name.startswith(f"{installed}/")] == []
    assert [name for name in said["classes"] if name.startswith("__main__")] == []
    assert said["numba"]
    assert not any(path.startswith(str(REPOSITORY)) for path in said["path"] if path != str(libraries))

    # The check can fail: without the wheel there is nothing to load.
    (bare := tmp_path / "bare").mkdir()
    missing = work([bare, libraries], pipelines[0])
    assert missing.returncode != 0
    assert "ModuleNotFoundError" in missing.stderr
