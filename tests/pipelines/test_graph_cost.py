"""What Beam works out once: the same answers as Beam's own, and no more work for more collections."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder
from apache_beam.options.pipeline_options import GoogleCloudOptions, StandardOptions, TypeOptions
from apache_beam.options.pipeline_options import _BeamArgumentParser as Parser
from apache_beam.runners import common
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.typehints.typecheck import OutputCheckWrapperDoFn

from ldpbeam.pipelines.beam_job import make_pipeline
from ldpbeam.pipelines.bounded import collect_reports
from ldpbeam.pipelines.config import RunConfig
from ldpbeam.pipelines.graph_cost import OptionsParsedOnce, inspected, install, state_and_timers
from tests.pipelines.running import collection

HELD = BagStateSpec("held", BytesCoder())
NAMESAKE = BagStateSpec("held", BytesCoder())
END = TimerSpec("end", TimeDomain.WATERMARK)


class Plain(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield element


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


def function(element: Any, held: Any = beam.DoFn.StateParam(HELD)) -> None:
    """Beam finds no state here: it inspects methods."""


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
    expected = inspected(step)
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
    assert userstate.get_dofn_specs is state_and_timers
    for _ in range(2):
        with pytest.raises(ValueError, match="multiple StateSpecs with the same name"):
            userstate.validate_stateful_dofn(Twice())
    userstate.validate_stateful_dofn(Stateful())


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
