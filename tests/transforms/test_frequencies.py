"""One transform in anybody's pipeline: equal rows whatever comes in, and nothing vanishes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io import fileio
from apache_beam.io.gcp.pubsub import PubsubMessage
from apache_beam.transforms.error_handling import ErrorHandler
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from ldpbeam.client.device import Device
from ldpbeam.collection.file import parse_collection
from ldpbeam.errors import CollectionError, LdpError, UsageError
from ldpbeam.summaries import summaries_schema
from ldpbeam.tables import CUMULATIVE, estimates_schema
from ldpbeam.transforms import (
    AccountRow,
    AdmitReports,
    CountSupport,
    EstimateFrequencies,
    FrequenciesPerEpoch,
    FrequencyRow,
    ReadReports,
    RejectedRow,
    SummaryRow,
    WindowByEpoch,
    arrow_schema,
    as_dict,
)
from ldpbeam.transforms.sources.chunks import Chunk
from ldpbeam.transforms.stages.reports import ACCOUNTING, AdmitPieces
from ldpbeam.wire.codec import joined
from tests.conftest import REPOSITORY
from tests.narrow import present
from tests.pipelines.running import write
from tests.transforms.public import (
    BOTH,
    HOURS,
    JUNK,
    MESSAGES,
    SENT,
    counters,
    distribution,
    elements,
    expected,
    in_order,
    keep,
    newest,
    pending,
    total,
)

ROWS_OF_RESULTS = (FrequencyRow, RejectedRow, AccountRow, SummaryRow)


class Payload(NamedTuple):
    device: str
    payload: bytes


beam.coders.registry.register_coder(Payload, beam.coders.RowCoder)


def _stamped(message: bytes) -> Any:
    return TimestampedValue(message, 4_000_000_000)


def _create(messages: list[Any]) -> Callable[[Any, Path], Any]:
    return lambda pipeline, _: pipeline | beam.Create(messages, reshuffle=False)


INPUTS: dict[str, tuple[Callable[[Any, Path], Any], dict[str, Any]]] = {
    "bytes": (_create(MESSAGES), {}),
    "pairs": (_create([("key", message) for message in MESSAGES]), {}),
    "pubsub": (_create([PubsubMessage(message, {}) for message in MESSAGES]), {}),
    "rows": (_create([beam.Row(device="d", payload=m) for m in MESSAGES]), {"field": "payload"}),
    "named": (_create([Payload("d", message) for message in MESSAGES]), {"field": "payload"}),
    "dictionaries": (_create([{"payload": message} for message in MESSAGES]), {"field": "payload"}),
    "pattern": (lambda pipeline, folder: pipeline | ReadReports(f"{folder}/*.pb"), {}),
    "list": (lambda pipeline, folder: pipeline | ReadReports(sorted(map(str, folder.iterdir()))), {}),
    "matched": (
        lambda pipeline, folder: pipeline | fileio.MatchFiles(f"{folder}/*.pb") | ReadReports(),
        {},
    ),
    "paths": (
        lambda pipeline, folder: pipeline | beam.Create(sorted(map(str, folder.iterdir()))) | ReadReports(),
        {},
    ),
    "windows": (
        lambda pipeline, _: pipeline | beam.Create(MESSAGES) | "Minutes" >> beam.WindowInto(FixedWindows(60)),
        {},
    ),
    "stamped": (
        lambda pipeline, _: pipeline | beam.Create(MESSAGES) | beam.Map(_stamped),
        {"arrival": False},
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for one in BOTH:
        write(folder, one, SENT[one.digest_hex], prefix=one.name)
    return folder


class Whole(beam.PTransform):
    def __init__(self, name: str, files: Path, **options: Any) -> None:
        super().__init__()
        self._source, given = INPUTS[name]
        self._files, self._options = files, {"source": name, **options, **given}

    def expand(self, begin: Any) -> Any:
        return self._source(begin.pipeline, self._files) | FrequenciesPerEpoch(BOTH, **self._options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int], Any]:
    folder = tmp_path_factory.mktemp("whole")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        messages = pipeline | beam.Create([*MESSAGES, *JUNK, *JUNK, 7, None], reshuffle=False)
        typed = messages | "Typed" >> beam.Map(lambda message: message).with_output_types(Any)
        found = typed | FrequenciesPerEpoch([HOURS], max_epochs=2).with_outputs()
        for name, output in found._asdict().items():
            keep(output, folder / name, name)
    return folder, counters(pipeline.result), distribution(pipeline.result)


def test_what_is_not_counted_is_somewhere_else(whole: tuple[Path, dict[str, int], Any]) -> None:
    """Every account balances, and rejected rows say as much as the accounts: no element raises anything."""
    accounts = newest(elements(whole[0] / "accounts"))
    assert {pending(account) for account in accounts.values()} == {0}
    assert set(accounts) == {(HOURS.digest_hex, epoch) for epoch in (0, 1, None)} | {("", None)}
    counted = total(accounts.values())
    assert counted["rejected.malformed"] == 6  # an element that is no message among them
    assert counted["rejected.unknown_collection"] > 100
    assert counted["rejected.too_many_epochs"] > 100
    assert counted["duplicate"] > 0 < counted["rejected.conflicting_report_id"]
    rows = [RejectedRow(*row) for row in elements(whole[0] / "rejected")]
    by_reason = {f"rejected.{row.reason}": 0 for row in rows}
    for row in rows:
        by_reason[f"rejected.{row.reason}"] += row.count
    conflicting = counted.pop("rejected.conflicting_report_id")  # known only once reports come together
    assert by_reason == {what: n for what, n in counted.items() if what.startswith("rejected.")}
    assert conflicting == whole[1]["reports_rejected_conflicting_report_id"]
    assert {row.source for row in rows} == {"messages", "epochs of hours"}


def test_counters_are_the_accounts(whole: tuple[Path, dict[str, int], Any]) -> None:
    folder, found, reports = whole
    accounts = newest(elements(folder / "accounts"))
    counted = total(accounts.values())
    named = {f"reports_{what.replace('.', '_')}": n for what, n in counted.items() if what != "counted"}
    named["reports_admitted"] = found["reports_admitted"]
    assert found == {**named, "results": 2}
    assert found["reports_admitted"] == counted["read"] - sum(
        n
        for what, n in counted.items()
        if what.startswith("rejected.")
        and what not in {"rejected.too_many_epochs", "rejected.conflicting_report_id"}
    )
    sizes = [account["counted"] for (_, epoch), account in accounts.items() if epoch is not None]
    assert (reports.sum, reports.count, reports.max) == (sum(sizes), 2, max(sizes))


@pytest.mark.thorough
def test_an_epoch_with_too_many_errors_has_an_account_and_no_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted as withheld, and one warning says so; so does a step that admits nothing."""
    caplog.set_level(logging.WARNING, logger="ldpbeam.transforms")
    bad = b"".join([b"\x09", HOURS.digest.to_bytes(8, "little"), b"\x10\x00\x19", bytes(8), b"\x22\x02aa"])
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        messages = pipeline | beam.Create([*MESSAGES[:1], *[bad] * 300], reshuffle=False)
        found = messages | FrequenciesPerEpoch(HOURS).with_outputs()
        for name, output in found._asdict().items():
            keep(output, tmp_path / name, name)
        nothing = pipeline | "Junk" >> beam.Create(JUNK, reshuffle=False)
        keep(nothing | "Other" >> FrequenciesPerEpoch(HOURS), tmp_path / "other", "other")
    assert elements(tmp_path / "frequencies") == elements(tmp_path / "other") == []
    account = newest(elements(tmp_path / "accounts"))[HOURS.digest_hex, 0]
    assert account["rejected.wrong_length"] == 300
    assert pending(account) == 0
    assert (counters(pipeline.result)["results_withheld"], "results" in counters(pipeline.result)) == (
        1,
        False,
    )
    warned = [one.getMessage() for one in caplog.records if one.name.startswith("ldpbeam.transforms")]
    assert [text.rpartition(" ")[2] for text in sorted(warned)] == [
        "[W-TRANSFORM-WITHHELD]",
        "[W-TRANSFORM-NOTHING]",
    ]
    assert "hours" in warned[0] and "hours" in warned[1]


@pytest.mark.parametrize(("many", "warns"), [(100, True), (99, False)])
def test_many_records_that_are_all_late_are_warned_of(
    caplog: pytest.LogCaptureFixture, many: int, warns: bool
) -> None:
    caplog.set_level(logging.WARNING, logger="ldpbeam.transforms")
    message = present(Device.ephemeral(HOURS).report(1, epoch=0))
    arrivals = np.full(many, (HOURS.closes(0) + 10) * 1_000_000)
    step = AdmitPieces({HOURS.digest: HOURS})
    step.start_bundle()
    found = list(step.process(Chunk("here", 0, joined([message] * many), arrivals)))
    step.finish_bundle()
    assert [one.value for one in found if one.tag == ACCOUNTING][1] == (((HOURS.digest_hex, 0), "late"), many)
    told = [one.getMessage() for one in caplog.records if "W-TRANSFORM-NOTHING" in one.getMessage()]
    assert ["0 were rejected" in one and f"{many} came later" in one for one in told] == [True] * warns


@pytest.mark.thorough
def test_rejected_rows_go_to_a_handler_or_to_a_name(tmp_path: Path) -> None:
    class Dead(beam.PTransform):
        def expand(self, rows: Any) -> Any:
            assert rows.element_type is RejectedRow
            return rows | beam.ParDo(Keep(tmp_path / "dead"))

    from tests.transforms.public import Keep

    (tmp_path / "dead").touch()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        messages = pipeline | beam.Create([*MESSAGES, *JUNK], reshuffle=False)
        with ErrorHandler(Dead()) as handler:
            one = messages | "One" >> FrequenciesPerEpoch(BOTH).with_error_handler(handler)
            two = messages | "Two" >> FrequenciesPerEpoch(BOTH, source="two").with_error_handler(handler)
        named = messages | "Three" >> FrequenciesPerEpoch(BOTH, error_handling={"output": "bad"})
        assert set(named) == {"frequencies", "bad"}
        outputs = {"one": one, "two": two, "three": named["frequencies"], "bad": named["bad"]}
        for name, output in outputs.items():
            keep(output, tmp_path / name, name)
    for name in ("one", "two", "three"):
        assert in_order(map(as_dict, elements(tmp_path / name))) == expected()
    assert sorted(row.source for row in elements(tmp_path / "dead")) == ["messages"] * 2 + ["two"] * 2
    assert [row.reason for row in elements(tmp_path / "bad")] == ["malformed"] * 2


# --- errors, when a pipeline is built


def built(messages: list[Any], **options: Any) -> Any:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    return pipeline | beam.Create(messages) | FrequenciesPerEpoch(HOURS, **options)


@pytest.mark.parametrize(
    ("messages", "options", "said"),
    [
        (
            ["text"],
            {},
            r"^FrequenciesPerEpoch takes bytes, PubsubMessage, \(key, bytes\) or what ReadReports gives, not "
            r"str; decode base64 text in front, as with base64\.b64decode$",
        ),
        ([beam.Row(payload=b"")], {}, "for rows name the field that holds the message: field='payload'"),
        (
            [beam.Row(a=1, b=b"")],
            {"field": "payload"},
            "^FrequenciesPerEpoch: .* no field 'payload'; they have a, b",
        ),
        ([beam.Row(a=1, b=b"")], {"field": "a"}, "the field 'a' holds int64 and not bytes; name a field"),
    ],
)
def test_elements_that_are_no_messages_are_refused(
    messages: list[Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        built(messages, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shards": 6}, "shards is a power of two from 1 to 256, not 6"),
        ({"early_every": "10"}, "early_every: '10' is no duration without a unit"),
        ({"late_every": "1m"}, "late_every has no effect over bounded input"),
        ({"late_every": "0s"}, "late_every is a whole number of seconds, at least 1, not '0s'"),
        ({"max_error_fraction": 2}, "max_error_fraction is from 0 to 1, not 2"),
        ({"max_epochs": 0}, "max_epochs is a whole number above 0, not 0"),
        ({"error_handling": {"output": "frequencies"}}, "error_handling names the output"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        built([b""], **options)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("make", [WindowByEpoch, CountSupport.Fn])
def test_every_transform_refuses_the_same_collections(make: Callable[[Any], Any], tmp_path: Path) -> None:
    for given, kind, said in (
        ([], UsageError, "no collection was given"),
        (None, UsageError, "no collection was given"),
        ([HOURS, HOURS], UsageError, "was given twice"),
        (tmp_path / "none.yaml", CollectionError, r"none\.yaml: the collection cannot be read"),
        ({"name": "a"}, CollectionError, "<collection>"),
    ):
        with pytest.raises(kind, match=said):
            make(given)
    for wrong, named in (([3], "int"), (3, "int"), (b"a.yaml", "bytes"), ([None], "NoneType")):
        with pytest.raises(TypeError, match=f"or its definition, not {named}$"):
            make(wrong)


def test_a_collection_may_be_given_in_any_form(tmp_path: Path) -> None:
    """An object, a file or its definition, as a person, YAML and another language have it."""
    path = REPOSITORY / "examples" / "first_choice.yaml"
    import yaml

    definition = yaml.safe_load(path.read_text())
    definition["epoch"]["origin"] = "2026-01-01T00:00:00Z"
    for given in (path, str(path), [path], definition, (definition,)):
        (found,) = FrequenciesPerEpoch(given).collections
        assert found.digest_hex == "31f8771ca4dd8ba8"


def test_other_mistakes_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    messages = pipeline | beam.Create([b""])
    both = FrequenciesPerEpoch(HOURS, error_handling={"output": "bad"}).with_outputs()
    with pytest.raises(UsageError, match="rejected rows go to one place"):
        _ = messages | both
    with pytest.raises(
        UsageError, match="takes no names: it always gives frequencies, rejected, accounts, summ"
    ):
        FrequenciesPerEpoch(HOURS).with_outputs("rejected")
    with pytest.raises(UsageError, match="takes no names"):
        FrequenciesPerEpoch(HOURS).with_outputs(main="frequencies")
    with pytest.raises(TypeError, match=r"^AdmitReports takes bytes"):
        _ = pipeline | "Numbers" >> beam.Create([1]) | "AdmitNumbers" >> AdmitReports(HOURS)
    with pytest.raises(TypeError, match="patterns, at the root of a pipeline"):
        _ = pipeline | "None" >> ReadReports()
    with pytest.raises(TypeError, match="patterns, at the root of a pipeline"):
        _ = pipeline | "Paths" >> beam.Create(["a"]) | "Two" >> ReadReports("b")
    for wrong in ([], [1]):
        with pytest.raises(TypeError, match="a pattern or a list of them"):
            ReadReports(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="form is 'rows' or 'tables', not 'row'"):
        EstimateFrequencies(HOURS, form="row")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not_after"):
        ReadReports("a", not_after="yesterday")
    with pytest.raises(LdpError, match="attempts is a whole number above 0"):
        ReadReports("a", attempts=0)
    admitted = messages | AdmitReports(HOURS)
    windowed = admitted._replace(admitted=admitted.admitted | beam.WindowInto(FixedWindows(60)))
    with pytest.raises(UsageError, match="CountSupport counts epochs itself"):
        _ = windowed | CountSupport(HOURS)


# --- what other languages, runners and workers see


def test_outputs_have_schemas() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    found = pipeline | beam.Create([b""]) | FrequenciesPerEpoch(BOTH).with_outputs()
    components = pipeline.to_runner_api().components
    names = {
        pc.unique_name: components.coders[pc.coder_id].spec.urn for pc in components.pcollections.values()
    }
    assert tuple(one.element_type for one in found) == ROWS_OF_RESULTS
    rows = [urn for urn in names.values() if urn == "beam:coder:row:v1"]
    assert len(rows) >= 4
    transform = next(t for t in components.transforms.values() if t.unique_name == "FrequenciesPerEpoch")
    assert {
        components.coders[components.pcollections[o].coder_id].spec.urn for o in transform.outputs.values()
    } == {"beam:coder:row:v1"}


RUNS = parse_collection(
    "{name: runs, domain: {size: 9, ordered: true}, protocol: olh, hash_family: interval, epsilon: 1, "
    "epoch: {length: 1h}}"
)


def test_rows_have_the_columns_of_the_files() -> None:
    """Their names, their order, their types, and which may be null; pages have those of the rejected ones."""
    # The labels of a row are a map, and in files a column for each dimension.
    *columns, labels = arrow_schema(FrequencyRow)
    assert columns[: -len(CUMULATIVE)] == list(estimates_schema(HOURS))
    assert columns == list(estimates_schema(RUNS))
    *summaries, same = arrow_schema(SummaryRow)
    assert summaries == list(summaries_schema())
    assert labels.name == same.name == "slice"
