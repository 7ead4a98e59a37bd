"""A protocol added the way docs/adding-a-protocol.md says, and everything that picks it up unedited.

``thrifty``, a variant, and ``veil``, a new encoding, exist in this file only, and are in the table only while
a test of this file runs.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ldpbeam.arrays import Bytes, Floats, Ints, read_only
from ldpbeam.audit.checks.certificate import certificate_rules
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.channels.calibration import symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.channels.rounds import Rounds
from ldpbeam.cli.main import main
from ldpbeam.collection.file import load_collection
from ldpbeam.errors import InvalidPayload, Reason
from ldpbeam.privacy.guarantee import Guarantee, MemoisedInputs
from ldpbeam.protocols import PROTOCOLS, Parameters
from ldpbeam.protocols.contract import FrequencyProtocol
from ldpbeam.protocols.counter import Counter
from ldpbeam.protocols.device import Memo, ProtocolDevice
from ldpbeam.protocols.direct import Direct
from ldpbeam.protocols.estimator import FrequencyEstimator
from ldpbeam.protocols.forgery import Forgery
from ldpbeam.protocols.history_model import PairModel, stratum_of
from ldpbeam.protocols.law import FrequencyLaw
from ldpbeam.protocols.simulation import FleetAnswers, FleetWords, Simulation, WordPlan, WordSpec
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities
from tests.conftest import REPOSITORY
from tests.laws import test_memoised_inputs as inputs
from tests.laws import test_protocol_laws as laws
from tests.reference.settings import FrequencySetting, Setting
from tests.vectors import generate
from tests.vectors import test_vectors as vectors

PAGE = REPOSITORY / "docs" / "adding-a-protocol.md"


class Thrifty(Direct):
    """Two rounds over the values. The first report spends half of ε∞, so one level says it all."""

    ID = 9001
    NAME = "thrifty"
    PARAMETERS = ("epsilon_longitudinal",)
    SOURCE = "made up"

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> Thrifty:
        """Permanent GRR(ε∞), second round calibrated to ε∞/2."""
        level = parameters.level("epsilon_longitudinal")
        permanent = SymbolChannel.from_epsilon(domain_size, level)
        instant = symbol_second_round(permanent, level / 2, parameters.calibration)
        return cls(domain_size, Rounds(instant, permanent))


@dataclass(frozen=True)
class VeilDevice(ProtocolDevice[int]):
    """A response is a value, or k for nothing. ``nothing`` is the weight of silence over 2**64."""

    ENCODING = "veil"

    domain_size: int
    instant: SymbolChannel
    nothing: int

    @property
    def payload_bits(self) -> int:
        return self.domain_size.bit_length()

    def definition(self) -> dict[str, Any]:
        instant = self.instant.definition() | {"nothing": str(self.nothing)}
        return {"permanent": None, "instant": instant}

    def _privatize(self, value: int, memo: Memo, randomness: Randomness) -> tuple[int, Memo]:
        said = self.instant.draw(value, randomness)
        return (self.domain_size if randomness.word() < self.nothing else said), memo

    def encode(self, response: int) -> bytes:
        return response.to_bytes(self.payload_size, "little")

    def decode(self, payload: bytes) -> int:
        self._require_length(payload)
        response = int.from_bytes(payload, "little")
        if response > self.domain_size:
            raise InvalidPayload(Reason.VALUE_OUT_OF_RANGE, f"responses end at {self.domain_size}")
        return response


@dataclass(frozen=True)
class VeilCounter(Counter):
    """One cell per value, and one for nothing."""

    domain_size: int

    @property
    def counts_length(self) -> int:
        return self.domain_size + 1

    def check(self, payloads: Bytes) -> Bytes:
        from ldpbeam.kernels import symbols

        return symbols.check_below(read_only(payloads), self.domain_size + 1)

    def add(self, payloads: Bytes, counts: Ints) -> None:
        from ldpbeam.kernels import symbols

        symbols.add_at(read_only(payloads), counts)

    def support_counts(self, counts: Ints) -> Ints:
        return counts[: self.domain_size]

    def steps(self, reports: float) -> float:
        return reports


class VeilEstimator(FrequencyEstimator):
    """A report supports the value that it names; nothing supports none."""

    def sum_law(self, weights: Floats, *, lasting: bool = False) -> Any:
        """The weight of the one value, or 0: E[X²] − E[X]²."""
        from ldpbeam.protocols.sum_laws import FreshReports

        own, other = float(self.support.own), float(self.support.other)
        mean = other * weights.sum(axis=1, keepdims=True) + (own - other) * weights
        squares = other * (weights**2).sum(axis=1, keepdims=True) + (own - other) * weights**2
        return FreshReports(weights, own, other, squares - mean**2)


@dataclass(frozen=True)
class VeilSimulation(Simulation):
    """The two words of each device."""

    device: VeilDevice

    @property
    def word_plan(self) -> WordPlan:
        """What is said, without a look at whether it is; then whether. The first has a limit of its own."""
        said = WordSpec(1, self.device.instant.total)
        return WordPlan(WordSpec(1), seed=said, seed_per_report=True)

    def privatize(self, devices: Ints, values: Ints, words: FleetWords, memo: FleetAnswers) -> Bytes:
        import numpy as np

        from ldpbeam.kernels import symbols

        device, plan = self.device, self.word_plan
        assert plan.seed is not None
        said = device.instant.draw_many(values, words.seed(plan.seed)[:, 0])
        silent = words.instant(plan.instant)[:, 0] < np.uint64(device.nothing)
        sent = np.where(silent, device.domain_size, said)
        return symbols.pack(sent.astype("u8"), device.payload_size)


@dataclass(frozen=True)
class VeilLaw(FrequencyLaw[int]):
    """Probabilities of the values and of nothing."""

    domain_size: int
    support: SupportProbabilities

    def likelihood(self, response: int, value: int) -> Fraction:
        own, other = self.support.own, self.support.other
        if response == self.domain_size:
            return 1 - own - (self.domain_size - 1) * other
        return own if response == value else other

    def supports(self, response: int, value: int) -> bool:
        return response == value

    def responses(self) -> Iterator[int]:
        return iter(range(self.domain_size + 1))

    def model(self, pair: tuple[int, int]) -> PairModel:
        own, other = self.support.own, self.support.other
        rest = 1 - own - other
        rows = (own, other, rest), (other, own, rest)

        def placed(response: int) -> tuple[int, int]:
            return 0, pair.index(response) if response in pair else 2

        return PairModel(pair, placed, (stratum_of((0, 1), (None, rows)),))

    def best_guess(self, reports: int) -> float:
        """The value that most reports name; here as if it were alone, from below."""
        own, k = float(self.support.own), self.domain_size
        silent = 1 - own - (k - 1) * float(self.support.other)
        return own + silent / k

    def guess_is_exact(self, reports: int) -> bool:
        return reports == 1


@dataclass(frozen=True)
class Veil(FrequencyProtocol[int]):
    """GRR that keeps silent with probability ``nothing``/2**64, whatever the value is."""

    ID = 9002
    NAME = "veil"
    PARAMETERS = ("epsilon",)
    SOURCE = "made up"

    domain_size: int
    instant: SymbolChannel
    nothing: int = FULL // 4

    @classmethod
    def from_parameters(cls, domain_size: int, parameters: Parameters) -> Veil:
        return cls(domain_size, SymbolChannel.from_epsilon(domain_size, parameters.level("epsilon")))

    @property
    def guarantee(self) -> Guarantee:
        """That of the round: silence has the ratio 1."""
        return Guarantee(self.instant.ratio, MemoisedInputs.NONE)

    @cached_property
    def device(self) -> VeilDevice:
        return VeilDevice(self.domain_size, self.instant, self.nothing)

    @cached_property
    def counter(self) -> VeilCounter:
        return VeilCounter(self.domain_size)

    @cached_property
    def estimator(self) -> VeilEstimator:
        """own and other of the round, times the chance of no silence."""
        spoken = 1 - Fraction(self.nothing, FULL)
        support = SupportProbabilities(spoken * self.instant.own, spoken * self.instant.other)
        return VeilEstimator(self.counter, self.domain_size, support)

    @cached_property
    def simulation(self) -> VeilSimulation:
        return VeilSimulation(self.device)

    @property
    def forgery(self) -> Forgery:
        k, support = self.domain_size, self.estimator.support
        mean = float(support.own + (k - 1) * support.other)
        return Forgery(ends=support, most_supported=1, asked_about=k, supported_variance=mean * (1 - mean))

    @cached_property
    def law(self) -> VeilLaw:
        return VeilLaw(self.domain_size, self.estimator.support)


@pytest.fixture(autouse=True)
def line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the line in ``ldpbeam/protocols/__init__.py`` does."""
    for kind in (Thrifty, Veil):
        monkeypatch.setitem(PROTOCOLS, kind.NAME, kind)


SETTINGS: dict[str, Callable[[int], FrequencySetting]] = {
    "thrifty": lambda size: FrequencySetting("thrifty", size, Parameters(epsilon_longitudinal=2.0)),
    "veil": lambda size: FrequencySetting("veil", size, Parameters(epsilon=1.0)),
}
each = pytest.mark.parametrize("name", list(SETTINGS))


# --- the laws of all protocols


def laws_with_sizes() -> Iterator[Any]:
    """Every law about a setting, at the sizes that it is checked at for the protocols of the table."""
    for name, law in [*vars(laws).items(), *vars(inputs).items()]:
        if name.startswith("test_") and list(inspect.signature(law).parameters) == ["setting"]:
            (mark,) = (mark for mark in law.pytestmark if mark.name == "parametrize")
            for size in sorted({s.domain_size for s in mark.args[1]}):
                yield pytest.param(law, size, id=f"{name}-k{size}")


def test_there_are_laws() -> None:
    found = {case.values[0] for case in laws_with_sizes()}
    assert {laws.test_rows_of_the_channel_sum_to_one, laws.test_a_simulated_fleet_is_many_devices} <= found
    assert inputs.test_renamed_inputs_lose_no_more_than_is_stated in found
    assert len(found) >= 20


@pytest.mark.cases(60)
@each
@pytest.mark.parametrize(("law", "size"), list(laws_with_sizes()))
def test_the_law_holds(law: Callable[[Setting], None], size: int, name: str) -> None:
    setting = SETTINGS[name](size)
    if law.__module__ == inputs.__name__ and not inputs.memoises(setting):
        return  # laws of what is memoised
    if law is laws.test_permanent_round_stays_below_the_longitudinal_level and not inputs.memoises(setting):
        return
    law(setting)


def test_names_and_ids_stay_unique() -> None:
    laws.test_names_and_ids_are_unique_and_listed_under_their_name()
    assert [kind.NAME for kind in PROTOCOLS.values() if kind.ID >= 9000] == list(SETTINGS)


# --- its vector file


@each
def test_a_vector_file_is_written_and_obeyed(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(generate.vector(SETTINGS[name](11))), "ascii")
    assert json.loads(path.read_text())["id"] == PROTOCOLS[name].ID
    checks = [
        check
        for name, check in vars(vectors).items()
        if name.startswith("test_") and list(inspect.signature(check).parameters) == ["path"]
    ]
    assert len(checks) >= 3
    for check in checks:
        check(path)


# --- commands


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["ldpbeam", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


@pytest.mark.thorough
@pytest.mark.parametrize("values", [5, 12])
def test_every_command_knows_the_new_encoding(
    values: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"name: veiled\ndomain: {{size: {values}}}\nprotocol: veil\nepsilon: 1.5\n"
    (tmp_path / "veiled.yaml").write_text(text + "epoch: {length: 1h, count: 10}\n", "utf-8")
    given = ("--collection", tmp_path / "veiled.yaml")
    asked = ("--values", values, "--devices", 10_000, "--epochs", 1, "--epsilon-first", 1)
    command(monkeypatch, "plan", *asked, "--json")
    assert '"veil"' in capsys.readouterr().out
    command(monkeypatch, "check", tmp_path / "veiled.yaml", "--devices", 1000)
    command(monkeypatch, "explain", tmp_path / "veiled.yaml")
    command(monkeypatch, "definition", tmp_path / "veiled.yaml")
    assert '"nothing"' in capsys.readouterr().out
    fleet = ("--population", "zipf:1.1", "--devices", 2000, "--epochs", 1)
    command(monkeypatch, "simulate", *given, *fleet, "--out", tmp_path / "fleet", "--seed", 4)
    reports = tmp_path / "fleet" / "reports" / "*"
    command(monkeypatch, "run", *given, "--input", reports, "--output", tmp_path / "out")
    command(monkeypatch, "report", tmp_path / "out")
    # The audit's devices live in processes of their own, which have no line for it; its rules are tried here.
    audited = load_collection(tmp_path / "veiled.yaml")
    assert all(rule.broken == 0 for rule in certificate_rules(audited))
    assert model_of(audited.protocol).cells == 3


# --- what is missing is refused when Python reads the class

PIECES = {
    "_privatize": VeilDevice,
    "encode": VeilDevice,
    "decode": VeilDevice,
    "definition": VeilDevice,
    "payload_bits": VeilDevice,
    "ENCODING": VeilDevice,
    "check": VeilCounter,
    "add": VeilCounter,
    "counts_length": VeilCounter,
    "steps": VeilCounter,
    "sum_law": VeilEstimator,
    "word_plan": VeilSimulation,
    "privatize": VeilSimulation,
    "likelihood": VeilLaw,
    "supports": VeilLaw,
    "model": VeilLaw,
    "best_guess": VeilLaw,
    "from_parameters": Veil,
    "guarantee": Veil,
    "device": Veil,
    "counter": Veil,
    "estimator": Veil,
    "simulation": Veil,
    "forgery": Veil,
    "law": Veil,
    "ID": Veil,
    "NAME": Veil,
    "PARAMETERS": Veil,
    "SOURCE": Veil,
}
"""Everything that the example writes."""


@pytest.mark.parametrize("piece", list(PIECES))
def test_a_class_without_a_piece_is_refused(piece: str) -> None:
    whole = PIECES[piece]
    body = {
        name: member for name, member in vars(whole).items() if name not in {piece, "__dict__", "__weakref__"}
    }
    with pytest.raises(TypeError) as caught:
        type("Incomplete", whole.__bases__, body)
    (sentence,) = str(caught.value).splitlines()
    assert sentence.startswith("class Incomplete in ")
    assert f"lacks {piece}; " in sentence


def test_the_pieces_are_all_that_is_abstract() -> None:
    bases = (ProtocolDevice, Counter, FrequencyEstimator, Simulation, FrequencyLaw, FrequencyProtocol)
    abstract = {name for base in bases for name in base.__abstractmethods__}
    constants = {"ENCODING", "ID", "NAME", "PARAMETERS", "SOURCE"}
    # FrequencyEstimator has its own estimate and consistent.
    assert abstract | constants == set(PIECES)


def test_a_key_that_no_collection_has_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Incomplete .* takes colour, which .*parameters.py has no line for"):
        type("Incomplete", (Veil,), {"PARAMETERS": ("colour",)})


def test_vectors_refuse_a_definition_without_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete: list[dict[str, Any]] = [{"permanent": None, "instant": None}, {"instant": {}}]
    for definition in incomplete:
        monkeypatch.setattr(VeilDevice, "definition", lambda self, found=definition: found)
        with pytest.raises(TypeError, match="the definition of veil lacks"):
            generate.vector(SETTINGS["veil"](11))


# --- the page


def test_the_page_shows_this_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(from .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block.endswith(inspect.getsource(Thrifty))
    shown_module = ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", shown_module)
    names = vars(shown_module)
    exec(compile(block, "shown", "exec", dont_inherit=True), names)
    parameters = Parameters(epsilon_longitudinal=2.0)
    built, shown = (kind.from_parameters(5, parameters) for kind in (Thrifty, names["Thrifty"]))
    assert built.device.definition() == shown.device.definition()
