"""Pub/Sub without Pub/Sub: paths, timestamps, failures in our words, and what a simulation would publish."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import numpy as np
import pytest
from google.api_core import exceptions as google
from google.auth.exceptions import DefaultCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.admission import ReportColumns
from ldpbeam.cli import main as command
from ldpbeam.collection.epochs import Epochs
from ldpbeam.engine.sources.subscriber import Subscriber, _message, timestamp_micros
from ldpbeam.errors import UsageError
from ldpbeam.simulators.deliver.pubsub import arrivals, messages, regrouped
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.transforms.pubsub import explain, library, require_path
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATH = "projects/some-project/subscriptions/reports"


# --- paths


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        "projects/example.com:my-project/subscriptions/a.b_c~d%e+f-g",
        "projects/123456789/subscriptions/abc",
    ],
)
def test_a_path_is_taken_as_it_is(path: str) -> None:
    assert require_path("subscription", path) == path
    topic = path.replace("/subscriptions/", "/topics/")
    assert require_path("topic", topic) == topic


@pytest.mark.parametrize(
    "path",
    [
        "projects/some-project/subscriptions/ab",
        "projects/some-project/subscriptions/google-reports",
        "projects/some-project/subscriptions/" + "a" * 256,
        "projects/Some-Project/subscriptions/reports",
        f"{PATH}\n",
        "projects/some-project/topics/reports",
    ],
)
def test_another_path_is_refused_with_a_remedy(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        Subscriber(path)
    assert (caught.value.code, caught.value.exit_code) == ("E-PUBSUB-MISSING", 2)
    assert "projects/PROJECT/subscriptions/NAME" in caught.value.remedy
    assert ("is a topic" in caught.value.remedy) == ("/topics/" in path)
    assert "\n" not in str(caught.value)


# --- times


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1767225600007", 1_767_225_600_007_000),
        ("253402300799999", 253_402_300_799_999_000),
        ("2026-01-01t00:00:00.007z", 1_767_225_600_007_000),
        ("2026-01-01 01:30:00+01:30", 1_767_225_600_000_000),
        ("2025-12-31T23:59:59.9999999-00:00", 1_767_225_599_999_999),
    ],
)
def test_times_that_can_be_read(text: str, micros: int) -> None:
    assert timestamp_micros(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "-1",
        "१७६७२२५६००००७",
        "1767225600000000",  # microseconds: not one of the two forms
        "253402300800000",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00+24:00",
        "2026-02-29T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-23:59",
    ],
)
def test_times_that_cannot(text: str) -> None:
    assert timestamp_micros(text) is None


MICROS = st.integers(0, 253_402_300_799_999_999)


@given(MICROS, st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_whatever_python_writes_as_rfc_3339_is_read_back(micros: int, offset: int) -> None:
    moment = EPOCH + timedelta(microseconds=micros)
    assert timestamp_micros(moment.isoformat().replace("+00:00", "Z")) == micros
    try:
        there = moment.astimezone(timezone(timedelta(minutes=offset)))
    except OverflowError:  # beyond the year 9999 over there
        return
    assert timestamp_micros(there.isoformat()) == micros


@pytest.mark.parametrize(
    ("attribute", "attributes", "micros", "stamped"),
    [
        (None, {"received": "5"}, 1_500_000, True),
        ("received", {"received": "5"}, 5000, True),
        ("received", {"received": "x"}, 1_500_000, False),
    ],
)
def test_the_publish_time_stands_in_and_the_message_says_so(
    attribute: str | None, attributes: dict[str, str], micros: int, stamped: bool
) -> None:
    raw = SimpleNamespace(
        data=b"x", attributes=attributes, message_id="7", publish_time=EPOCH + timedelta(seconds=1.5)
    )
    found = _message(raw, attribute)
    assert (found.data, found.arrival_micros, found.message_id, found.stamped) == (b"x", micros, "7", stamped)


# --- failures


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (google.NotFound("x"), "E-PUBSUB-MISSING", 2),
        (DefaultCredentialsError("x"), "E-USAGE-CREDENTIALS", 2),
        (google.ServiceUnavailable("Getting metadata from plugin failed: x"), "E-USAGE-CREDENTIALS", 2),
        (google.ServiceUnavailable("x"), "E-PUBSUB-UNREACHABLE", 2),
        (google.RetryError("x", google.ServiceUnavailable("y")), "E-PUBSUB-UNREACHABLE", 2),
        (google.FailedPrecondition("x"), "E-PUBSUB-REFUSED", 2),
        (ValueError("x\ny"), "E-RUN-SERVICE", 6),
        (None, "E-RUN-SERVICE", 6),
    ],
)
def test_failures_of_the_library_become_one_line(error: Exception | None, code: str, exit_code: int) -> None:
    found = explain(error, "subscription", PATH)
    assert (found.code, found.exit_code, found.where) == (code, exit_code, PATH)
    assert found.remedy
    assert "\n" not in str(found)
    assert isinstance(found, UsageError) == (exit_code == 2)


def test_a_refused_acknowledgement_is_a_matter_of_permission() -> None:
    kinds = library().subscriber.exceptions
    denied = kinds.AcknowledgeError(kinds.AcknowledgeStatus.PERMISSION_DENIED, None)
    assert explain(denied, "subscription", PATH).code == "E-USAGE-CREDENTIALS"


def test_without_the_library_the_remedy_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.pubsub_v1", None)
    with pytest.raises(UsageError, match=r"pip install 'ldpbeam\[gcp\]'") as caught:
        Subscriber(PATH)
    assert caught.value.code == "E-USAGE-EXTRA"


# --- what a simulation publishes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "E-USAGE-OPTION"),
        (["--topic", "reports"], "E-PUBSUB-MISSING"),
        (["--topic", "projects/some-project/topics/reports", "--compression", "gzip"], "E-USAGE-OPTION"),
    ],
)
def test_what_simulate_cannot_do_is_refused_at_once(
    arguments: list[str], code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collection = str(REPOSITORY / "examples" / "minutes_in_app.yaml")
    common = ["--collection", collection, "--population", "syn", "--devices", "5", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["ldpbeam", "simulate", *common, *arguments])
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith(f"[{code}]\n")


def columns(*sizes: int) -> list[ReportColumns]:
    draw = np.random.default_rng(1)
    found = [
        ReportColumns(
            7, -3, draw.integers(0, 1 << 64, n, np.uint64), draw.integers(0, 256, (n, 3)).astype(np.uint8)
        )
        for n in sizes
    ]
    found[0].report_ids[:1] = 0  # which proto3 leaves out
    return found


def reports(batches: list[ReportColumns]) -> list[tuple[int, bytes]]:
    return [
        (int(i), payload.tobytes())
        for b in batches
        for i, payload in zip(b.report_ids, b.payloads, strict=True)
    ]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 40))
def test_messages_do_not_depend_on_how_the_fleet_batches(sizes: list[int], rows: int) -> None:
    batches = columns(*sizes)
    sent = [report_pb2.ReportBatch.FromString(m) for m in messages(regrouped(iter(batches), rows), "batch")]
    assert [b.count for b in sent[:-1]] == [rows] * (len(sent) - 1)
    assert len(sent) == -(-sum(sizes) // rows)
    assert {(b.digest, b.epoch) for b in sent} == {(7, -3)}
    found = [(i, b.payloads[3 * row : 3 * row + 3]) for b in sent for row, i in enumerate(b.report_ids)]
    assert found == reports(batches)
    single = [report_pb2.Report.FromString(m) for m in messages(regrouped(iter(batches), 1), "report")]
    assert [(r.report_id, r.payload) for r in single] == reports(batches)
    assert {(r.digest, r.epoch) for r in single} == {(7, -3)}


def test_messages_arrive_all_over_their_epoch_in_order_and_reproducibly() -> None:
    epochs = Epochs(3600, 1000)
    found = arrivals(RandomWords(1), epochs, 2, 2000)
    assert found == sorted(found) == arrivals(RandomWords(1), epochs, 2, 2000)
    assert found != arrivals(RandomWords(2), epochs, 2, 2000)
    assert found[0] >= 1000 * epochs.start(2)
    assert found[-1] < 1000 * epochs.end(2)
    counts = np.histogram(found, 10, (1000 * epochs.start(2), 1000 * epochs.end(2)))[0]
    assert counts.min() > 130  # of 200 expected, five standard deviations below
    assert arrivals(RandomWords(1), epochs, 3, 0) == []
