"""What Beam works out once: the same answers as Beam's own, and no more work for more collections."""

from __future__ import annotations

import base64
import bz2
import copy
import pickle
from collections.abc import Iterator
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from types import MethodType
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.options.pipeline_options import GoogleCloudOptions, StandardOptions, TypeOptions
from apache_beam.options.pipeline_options import _BeamArgumentParser as Parser
from apache_beam.runners import common
from apache_beam.runners.worker.statesampler import DEFAULT_SAMPLING_PERIOD_MS, get_current_tracker
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import core, userstate
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.typehints.typecheck import OutputCheckWrapperDoFn

from ldpbeam.pipelines import graph_cost, run
from ldpbeam.pipelines.beam_job import make_pipeline
from ldpbeam.pipelines.bounded import collect_reports
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.pipelines.graph_cost import (
    OptionsParsedOnce,
    arguments,
    declared,
    inspected,
    install,
    nothing_travels,
    state_and_timers,
    warned_of,
    yields_and_returns,
)
from tests.pipelines.running import collection

HELD = BagStateSpec("held", BytesCoder())
NAMESAKE = BagStateSpec("held", BytesCoder())
END = TimerSpec("end", TimeDomain.WATERMARK)


class Plain(beam.DoFn):
    def process(self, element: Any, more: int = 1, *rest: int, only: int = 2, **named: int) -> Iterator[Any]:
        yield element

    @staticmethod
    def by_itself(element: Any) -> None:
        pass

    @classmethod
    def of_its_class(cls, element: Any, more: int = 3) -> None:
        pass


class Stateful(beam.DoFn):
    def process(self, element: Any, held: Any = beam.DoFn.StateParam(HELD)) -> None:
        pass

    @on_timer(END)
    def end(self, timer: Any = beam.DoFn.TimerParam(END)) -> None:
        pass


class Twice(Stateful):
    """Two cells of one name, which Beam refuses."""

    def start_bundle(self, held: Any = beam.DoFn.StateParam(NAMESAKE)) -> None:
        pass


class Callable:
    def __call__(self, element: Any, more: int = 4) -> None:
        pass


def function(element: Any, held: Any = beam.DoFn.StateParam(HELD)) -> None:
    """A function that asks for state."""


@wraps(function)
def stands_for_it(*_: Any) -> None:
    """A function that says it is another one."""


ASKED = {
    "function": function,
    "lambda": lambda element, more=5: element,
    "stands for a function": stands_for_it,
    "partial": partial(function, held=None),
    "builtin": len,
    "class": Plain,
    "object": Callable(),
    "method": Plain().process,
    "its function": Plain.process,
    "static method": Plain().by_itself,
    "class method": Plain.of_its_class,
    "method of an object": Callable().__call__,
    "function as a method": MethodType(function, 1),
    "state": Stateful().process,
    "timer": Stateful().end,
}


@pytest.mark.parametrize("name", ASKED)
def test_arguments_are_those_that_beam_finds(name: str) -> None:
    """Also when all others were asked before, and what is handed out does not stay shared."""
    for each in (*ASKED.values(), ASKED[name]):
        arguments(each)
    expected = inspected(ASKED[name])
    assert arguments(ASKED[name]) == expected
    for found in arguments(ASKED[name]):
        found.clear()
    assert arguments(ASKED[name]) == expected


def test_what_the_cases_have_differs() -> None:
    """The cases above are not all empty, and a method is not its function."""
    assert arguments(Plain.process)[0] == ["self", "element", "more"]
    assert arguments(Plain().process)[0] == ["element", "more"]
    assert len({str(inspected(each)) for each in ASKED.values()}) > 8


@pytest.mark.parametrize("attribute", ["__wrapped__", "__signature__"])
def test_a_function_whose_signature_is_exchanged_is_asked_again(attribute: str) -> None:
    def changing(element: Any) -> None:
        pass

    assert arguments(changing)[0] == ["element"]
    setattr(changing, attribute, function if attribute == "__wrapped__" else signature(function))
    assert arguments(changing)[0] == ["element", "held"]


STEPS = {
    "plain": Plain,
    "stateful": Stateful,
    "function": lambda: CallableWrapperDoFn(function),
    "builtin": lambda: CallableWrapperDoFn(len),
    "method": lambda: CallableWrapperDoFn(Stateful().process),
    "another method": lambda: CallableWrapperDoFn(Plain().process),
    "checked": lambda: OutputCheckWrapperDoFn(Stateful(), "Checked"),
    "checked plain": lambda: OutputCheckWrapperDoFn(Plain(), "Checked"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_declares_what_beam_finds(name: str) -> None:
    """Also when another step of its class was asked before, and what is handed out does not stay shared."""
    for make in (*STEPS.values(), STEPS[name]):
        state_and_timers(make())
    step = STEPS[name]()
    expected = declared(step)
    assert state_and_timers(step) == expected
    for found in state_and_timers(step):
        found.clear()
    assert state_and_timers(step) == expected


def test_what_the_steps_declare_differs() -> None:
    """The cases above are not all empty."""
    assert state_and_timers(Stateful()) == ({HELD}, {END})
    assert state_and_timers(STEPS["method"]()) == ({HELD}, set())
    assert state_and_timers(STEPS["another method"]()) == state_and_timers(Plain()) == (set(), set())


def test_beam_asks_and_still_refuses() -> None:
    install()
    assert core.get_function_args_defaults is arguments
    assert userstate.get_dofn_specs is state_and_timers
    for _ in range(2):
        with pytest.raises(ValueError, match="multiple StateSpecs with the same name"):
            userstate.validate_stateful_dofn(Twice())
    userstate.validate_stateful_dofn(Stateful())
    assert userstate.get_dofn_specs(Stateful()) == ({HELD}, {END})
    assert userstate.get_dofn_specs(Plain()) == (set(), set())


def test_a_signature_is_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps of a class there are, and whatever is done with them."""
    asked = []

    def counted(of: Any) -> Any:
        asked.append(of)
        return inspected(of)

    class Fresh(Plain):
        def process(self, element: Any) -> Iterator[Any]:  # type: ignore[override]
            yield element

    monkeypatch.setattr(graph_cost, "inspected", counted)
    for _ in range(3):
        assert arguments(Fresh().process) == inspected(Fresh().process)
    assert sum(getattr(each, "__func__", None) is Fresh.process for each in asked) == 1


class Both(beam.DoFn):
    def process(self, element: Any) -> Any:
        if element:
            return [element]
        yield element


@pytest.mark.parametrize("name", ["both", *ASKED])
def test_of_what_beam_warns_is_what_it_finds(name: str) -> None:
    asked = {**ASKED, "both": Both().process}
    for each in (*asked.values(), asked[name]):
        warned_of(each)
    assert warned_of(asked[name]) is yields_and_returns(asked[name]) is (name == "both")


def test_a_source_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(of: Any) -> bool:
        read.append(of)
        return yields_and_returns(of)

    class Fresh(beam.DoFn):
        def process(self, element: Any) -> Any:
            if element:
                return [element]
            yield element

    monkeypatch.setattr(graph_cost, "yields_and_returns", counted)
    install()
    for _ in range(3):
        beam.ParDo(Fresh())
    assert len(read) == 1
    assert warned_of(Fresh().process)


def test_a_class_is_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(common.MethodWrapper):
        def __init__(self, step: Any, method: str) -> None:
            made.append(method)
            super().__init__(step, method)

    class Fresh(Plain):
        pass

    monkeypatch.setattr(common, "MethodWrapper", Counted)
    state_and_timers(Fresh())
    before = len(made)
    assert "process" in made
    state_and_timers(Fresh())
    assert len(made) == before


def test_nothing_is_compressed_that_does_not_travel() -> None:
    """What was compressed is read all the same, and afterwards all is as it was."""
    sent = {"name": "x" * 1000}
    compressed = pickler.dumps(sent)
    with nothing_travels():
        plain = pickler.dumps(sent)
        assert pickler.loads(plain) == pickler.loads(compressed) == sent
        assert b"x" * 1000 in base64.b64decode(plain)
        with pytest.raises(ZeroDivisionError), nothing_travels():
            _ = 1 / 0
        assert pickler.loads(pickler.dumps(sent)) == sent
    assert pickler.dumps(sent) == compressed
    assert len(compressed) < 400 < len(plain)


@pytest.mark.parametrize(
    ("beam_args", "inside"),
    [((), True), (("--direct_num_workers=2", "--direct_running_mode=multi_processing"), False)],
)
def test_only_a_run_in_one_process_keeps_its_steps_uncompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beam_args: tuple[str, ...], inside: bool
) -> None:
    (tmp_path / "in.pb").write_bytes(b"")
    config = RunConfig.parsed(
        (collection("grr"),), files=(str(tmp_path / "in.pb"),), output=str(tmp_path / "out")
    )
    seen = []

    def started(job: Any, runner: str) -> None:
        seen.append(cloudpickle_pickler.bz2 is not bz2)
        raise InterruptedError

    monkeypatch.setattr(run, "run_to_end", started)
    with pytest.raises(InterruptedError):
        run.run(config.changed(beam_args=beam_args))
    assert seen == [inside]
    assert cloudpickle_pickler.bz2 is bz2


def sampling_period(_: int) -> int:
    tracker = get_current_tracker()
    return 0 if tracker is None else tracker.sampling_period_ms


def test_the_end_of_a_bundle_waits_for_no_long_sample() -> None:
    """In a step of a pipeline that is made here, the thread to be waited for sleeps as long as is said."""
    with make_pipeline(RunConfig.parsed((collection("grr"),), output="out")) as pipeline:
        periods = pipeline | beam.Create([1]) | beam.Map(sampling_period)
        assert_that(periods, equal_to([graph_cost.SAMPLED_EVERY]))
    assert graph_cost.SAMPLED_EVERY <= 10 < DEFAULT_SAMPLING_PERIOD_MS


def options() -> OptionsParsedOnce:
    # Beam leaves the last one out of copies, and so gives each view of a copy values of its own.
    given = ["--runner=FnApiRunner", "--project=p", "--impersonate_service_account=someone"]
    return OptionsParsedOnce(given)


def test_views_of_options_share_values() -> None:
    one = options()
    view = one.view_as(StandardOptions)
    assert one.view_as(StandardOptions) is view
    view.runner = "Other"
    one.view_as(TypeOptions).pipeline_type_check = False
    found = one.get_all_options()
    assert (found["runner"], found["pipeline_type_check"], found["project"]) == ("Other", False, "p")


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_values_of_its_own(again: Any) -> None:
    """Beam copies the options that it is given, and puts them into what workers receive."""
    one = options()
    for kind in (StandardOptions, GoogleCloudOptions):
        one.view_as(kind)
    other = again(one)
    assert other.view_as(GoogleCloudOptions).project == "p"
    other.view_as(StandardOptions).runner = "Other"
    assert one.view_as(StandardOptions).runner == "FnApiRunner"
    assert other.get_all_options()["runner"] == "Other"


def test_more_collections_parse_no_more_options(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    initialise = Parser.__init__

    def counted(self: Any, *arguments: Any, **more: Any) -> None:
        made.append(1)
        initialise(self, *arguments, **more)

    monkeypatch.setattr(Parser, "__init__", counted)

    def parsers(number: int) -> int:
        made.clear()
        agreed = tuple(collection("grr", name=f"c{i}") for i in range(number))
        config = RunConfig.parsed(agreed, files=("in",), output="out")
        _ = make_pipeline(config) | collect_reports(config)
        return len(made)

    assert 0 < parsers(1) == parsers(4) < 60
