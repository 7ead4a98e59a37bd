"""One cluster for the whole suite; pools of workers and job servers are a test's own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.flink.cluster import JAVA, Cluster, JobServerProcess, Worker
from tests.flink.expansion import ExpansionService


@pytest.fixture(scope="session", autouse=True)
def short_lived() -> Iterator[None]:
    """Java processes that Beam starts get the options of JAVA too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", " ".join(JAVA[1:]))
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("flink") / "cluster") as running:
        yield running


@pytest.fixture(scope="session")
def job_endpoint(cluster: Cluster) -> Iterator[str]:
    """A job server that submits to the cluster."""
    with closing(JobServerProcess(cluster.folder / "job-server.log", cluster.address)) as server:
        yield server.endpoint


@pytest.fixture(scope="session")
def expansion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExpansionService]:
    """Beam's Java connectors."""
    with closing(ExpansionService(tmp_path_factory.mktemp("expansion") / "service")) as service:
        yield service


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with closing(Worker(tmp_path / "pool.log")) as pool:
        yield pool
