"""The page of a running stream, asked for by a real client over HTTP."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ldpbeam.engine.engine import LocalStream
from ldpbeam.engine.run import run_local
from ldpbeam.errors import UsageError
from ldpbeam.report_page import document
from ldpbeam.report_page.live import AT_LEAST, LivePage, serve_page, served_at
from tests.ldpbeam.engine import test_status
from tests.ldpbeam.engine.test_status import HOUR, Service, config, report
from tests.ldpbeam.report_page.synthetic import Fake, write_run
from tests.waiting import PATIENCE

service = test_status.service


def ask(port: int, method: str = "GET", path: str = "/", host: str = "") -> tuple[HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), [Fake(k=2, epochs=1)])[0]


@pytest.fixture(scope="module")
def port(output: Path) -> Iterator[int]:
    with serve_page(("127.0.0.1", 0), output) as given:
        yield given


@pytest.mark.thorough
def test_the_page_is_given_to_read_and_nothing_else(output: Path, port: int) -> None:
    answer, body = ask(port)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Refresh"] is None
    assert body == document.render(output)
    answer, nothing = ask(port, "HEAD", "/?refresh=30")
    assert (answer.status, nothing, answer.headers["Refresh"]) == (200, b"", "30")
    assert int(answer.headers["Content-Length"]) == len(body)
    for method in ("POST", "PUT", "DELETE"):
        assert ask(port, method)[0].status == 501
    for path in ("/run.json", "/../run.json", "/estimates/", "/%2e%2e/run.json"):
        assert ask(port, path=path)[0].status == 404
    assert ask(port, path="/?refresh=0")[0].headers["Refresh"] == "5"
    odd = ask(port, path="/?refresh=5%0d%0aSet-Cookie:a")[0]
    assert odd.headers["Refresh"] is odd.headers["Set-Cookie"] is None


def test_no_other_sites_name_leads_to_it(port: int) -> None:
    """A page elsewhere whose name is made to point here would otherwise read it."""
    assert ask(port, host=f"evil.example:{port}")[0].status == 421
    assert ask(port, host=f"localhost:{port}")[0].status == 200


@pytest.mark.thorough
def test_whoever_serves_it_to_others_may_give_it_any_name(output: Path) -> None:
    with serve_page(("0.0.0.0", 0), output) as given:
        assert ask(given, host="page.example")[0].status == 200
    with serve_page(("localhost", 0), output) as given:  # a name of this machine is no address that is bound
        assert ask(given, host="page.example")[0].status == 200


def test_a_page_is_made_when_asked_for_and_not_again_at_once(output: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    now, made = [100.0], []
    page = LivePage(folder, lambda: now[0])
    assert page.content() == b""
    shutil.copytree(output, folder)

    def render(_: Path) -> bytes:
        made.append(now[0])
        now[0] += 2.0
        if len(made) == 3:
            raise OSError("a file was just replaced")
        return b"page %d" % len(made)

    with mock.patch.object(document, "render", render):
        assert page.content() == b"page 1"
        now[0] += 1e6
        assert page.content() == b"page 1"  # nothing is new
        (folder / "run.json").write_text("new")
        assert page.content() == b"page 2"
        (folder / "run.json").write_text("newer still")
        now[0] += max(AT_LEAST, 18.0) - 0.5  # two seconds of work, a tenth of the time
        assert page.content() == b"page 2"
        now[0] += 1
        assert page.content() == b"page 2"  # the third one failed
        now[0] += 20
        assert page.content() == b"page 4"


def test_a_running_stream_shows_what_it_has_published(tmp_path: Path, service: Service) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for i in range(5):
        service.publish(report(i))
    original, seen, steps = LocalStream.step, list[Any](), [0]

    def step(self: LocalStream[Any]) -> int:
        steps[0] += 1
        if steps[0] == 3:
            service.clock.now = HOUR + 10.0
        done = original(self)
        if steps[0] == 1 or (self.status.counted == 5 and len(seen) == 1):
            seen.append(ask(port))
        return done

    with (
        mock.patch.object(LocalStream, "step", step),
        mock.patch("ldpbeam.report_page.live.AT_LEAST", 0.0),
        mock.patch("ldpbeam.report_page.live.SHARE", 1.0),
    ):
        run_local(config(tmp_path, stop_when_idle=30), beside=serve_page(served_at(str(port)), tmp_path))
    text = [re.sub(r"<[^>]*>", " ", body.decode()) for _, body in seen]
    assert len(seen) == 2
    assert "stream still running" in text[1]
    assert "read 5 = counted 5" in text[1]
    assert "read 5 = counted 5" not in text[0]
    with pytest.raises(ConnectionRefusedError):
        ask(port)


def test_a_taken_port_is_an_error_and_no_host_is_this_machine(output: Path, port: int) -> None:
    for typed in ("x", "host:", "127.0.0.1:65536"):
        with pytest.raises(UsageError, match="E-USAGE-LISTEN"):
            served_at(typed)
    with pytest.raises(UsageError, match="E-USAGE-LISTEN"), serve_page(("127.0.0.1", port), output):
        pass
    assert served_at("9200") == ("127.0.0.1", 9200)
