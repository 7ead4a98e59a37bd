"""What fails outside the program is said with its remedy; what does not is left to E-INTERNAL."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import NotFound
from google.auth.exceptions import DefaultCredentialsError

from ldpbeam.cli.shared.failures import outside_error
from ldpbeam.errors import UsageError
from tests.conftest import REPOSITORY
from tests.narrow import present

CLOSED = "127.0.0.1:9"  # discard; nobody listens there


def rpc() -> None:
    with grpc.insecure_channel(CLOSED) as channel:
        channel.unary_unary("/x/Y")(b"", timeout=5)


def raised(action: Callable[[], object]) -> BaseException:
    with pytest.raises(Exception) as caught:
        action()
    return caught.value


def failing(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("action", "code", "words"),
    [
        (rpc, "E-RUN-SERVICE", ["a service does not answer", "127.0.0.1:9", "--kafka-expansion"]),
        (lambda: socket.create_connection(("127.0.0.1", 9), 1), "E-RUN-SERVICE", ["Connection refused"]),
        (lambda: urllib.request.urlopen(f"http://{CLOSED}"), "E-RUN-SERVICE", ["Connection refused"]),
        (lambda: socket.getaddrinfo("no.such.host.invalid", 1), "E-RUN-SERVICE", ["Check the network"]),
        (lambda: FileSystems.match(["foo://a/b"]), "E-USAGE-STORE", ["foo://a/b", "gs://, s3://"]),
        (lambda: FileSystems.match(["hdfs://a/b"]), "E-USAGE-STORE", ["'apache-beam[hadoop]'"]),
        (lambda: FileSystems.match(["s3://a/b*"]), "E-USAGE-STORE", ["'apache-beam[aws]'"]),
        (lambda: Path("/dev/null/x").read_bytes(), "E-DISK-FAILED", ["Not a directory", "/dev/null/x"]),
        (failing(OSError(errno.EIO, "Input/output error", "j")), "E-DISK-FAILED", ["j", "the disk is sound"]),
        (failing(OSError(errno.EMFILE, "Too many open files")), "E-DISK-FILES", ["ulimit -n"]),
        (failing(OSError(errno.ENOSPC, "No space left", "f")), "E-DISK-FULL", ["Make room"]),
        (failing(MemoryError()), "E-RUN-MEMORY", ["not enough memory"]),
        (failing(DefaultCredentialsError("none")), "E-RUN-SERVICE", ["gcloud auth application-default"]),
        (failing(NotFound("no such project")), "E-RUN-SERVICE", ["no such project", "Check the project"]),
        (failing(ModuleNotFoundError("x", name="aiohttp.web")), "E-USAGE-EXTRA", ["ldpbeam[collect]"]),
        (
            failing(ImportError("runner not available, please install apache_beam[gcp]")),
            "E-USAGE-EXTRA",
            ["'ldpbeam[gcp]'"],
        ),
        (failing(grpc.FutureTimeoutError()), "E-RUN-SERVICE", ["does not answer"]),
    ],
)
def test_failures_outside(action: Callable[[], object], code: str, words: list[str]) -> None:
    found = present(outside_error(raised(action)))
    assert found.code == code
    assert found.exit_code == (2 if code.startswith("E-USAGE") else 6)
    assert isinstance(found, UsageError) == code.startswith("E-USAGE")
    for word in words:
        assert word in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyError("k"),
        ModuleNotFoundError("x", name="ldpbeam.nothing"),
        ImportError("cannot import name"),
        OSError("a library's"),
        AssertionError(),
    ],
)
def test_faults_of_the_program_stay_internal(error: Exception) -> None:
    assert outside_error(error) is None


def test_the_cause_is_looked_for() -> None:
    try:
        try:
            Path("/dev/null/x").read_bytes()
        except OSError as cause:
            raise RuntimeError("wrapped") from cause
    except RuntimeError as error:
        found = outside_error(error)
    assert found is not None
    assert found.code == "E-DISK-FAILED"


@pytest.mark.thorough
def test_an_expansion_service_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ldpbeam", "run", "--runner", "FlinkRunner", "--dry_run"]
    command += ["--collection", str(REPOSITORY / "examples" / "minutes_in_app.yaml"), "--output", "o"]
    command += ["--kafka-topic", "t", "--kafka-servers", CLOSED, "--kafka-expansion", CLOSED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr.startswith("ldpbeam: a service does not answer (")
    assert done.stderr.endswith("[E-RUN-SERVICE]\n")
    assert "E-INTERNAL" not in done.stderr
