"""A protocol added the way docs/adding-a-protocol.md says, and everything that picks it up unedited.

``thrifty`` exists in this file only, and is in the table only while a test of this file runs.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from math import log, sqrt
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ldpbeam.channels.calibration import symbol_second_round
from ldpbeam.channels.channel import SymbolChannel
from ldpbeam.cli.main import main
from ldpbeam.protocols import PROTOCOLS, Parameters
from ldpbeam.protocols.direct import Direct
from tests.conftest import FALSE_ALARM_SUITE, REPOSITORY
from tests.laws import test_memoised_inputs as inputs
from tests.laws import test_protocol_laws as laws
from tests.narrow import present
from tests.reference.settings import Setting
from tests.vectors import generate
from tests.vectors import test_vectors as vectors

PAGE = REPOSITORY / "docs" / "adding-a-protocol.md"
FALSE_ALARM = 1e-9
"""Chance that a correct program fails the end-to-end test, by Hoeffding's inequality."""
assert FALSE_ALARM <= FALSE_ALARM_SUITE


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
        return cls(domain_size, instant, permanent)


@pytest.fixture(autouse=True)
def line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the line in ``ldpbeam/protocols/__init__.py`` does."""
    monkeypatch.setitem(PROTOCOLS, Thrifty.NAME, Thrifty)


def setting(size: int) -> Setting:
    return Setting(Thrifty.NAME, size, Parameters(epsilon_longitudinal=2.0))


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
    assert len(found) >= 21


@pytest.mark.parametrize(("law", "size"), list(laws_with_sizes()))
def test_the_law_holds(law: Callable[[Setting], None], size: int) -> None:
    law(setting(size))


def test_names_and_ids_stay_unique() -> None:
    """IDs from 9000 on are kept for tests."""
    laws.test_names_and_ids_are_unique_and_listed_under_their_name()
    assert [kind.NAME for kind in PROTOCOLS.values() if kind.ID >= 9000] == [Thrifty.NAME]


# --- its vector file


def test_a_vector_file_is_written_and_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "thrifty.json"
    path.write_text(json.dumps(generate.vector(setting(11))), "ascii")
    assert json.loads(path.read_text())["id"] == 9001
    checks = [
        check
        for name, check in vars(vectors).items()
        if name.startswith("test_") and list(inspect.signature(check).parameters) == ["path"]
    ]
    assert len(checks) >= 3
    for check in checks:
        check(path)


# --- from a collection file to an estimate

YAML = """\
name: thrift
domain: {size: 5}
protocol: thrifty
epsilon_longitudinal: 3.0
epoch: {length: 1h, count: 10}
"""
DEVICES, EPOCHS = 50_000, 2


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["ldpbeam", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_collection_file_simulation_and_pipeline_know_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each estimate lies within a bound that correct programs exceed with probability FALSE_ALARM in all."""
    (tmp_path / "thrift.yaml").write_text(YAML, "utf-8")
    given = ("--collection", tmp_path / "thrift.yaml")
    fleet = ("--population", "zipf:1.1", "--devices", DEVICES, "--epochs", EPOCHS)
    out = tmp_path / "fleet"
    command(monkeypatch, "simulate", *given, *fleet, "--out", out, "--seed", 4, "--truth")
    command(monkeypatch, "run", *given, "--input", out / "reports" / "*", "--output", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    total = record["accounting"]["total"]
    assert total["read"] == total["counted"] == DEVICES * EPOCHS
    guarantee = record["collections"][0]["guarantee"]
    assert guarantee["first_report"] == pytest.approx(1.5)
    assert guarantee["cap_over_values"] == pytest.approx(15.0)
    assert len(guarantee["loss_same_changes"]) == 10  # inherited with the body

    truth = {
        (row["epoch"], row["value"]): row["frequency"]
        for row in pq.read_table(out / "truth.parquet").to_pylist()
    }
    rows = ds.dataset(tmp_path / "out" / "estimates").to_table().to_pylist()
    assert len(rows) == len(truth) == 5 * EPOCHS
    # A count is a sum of independent bits: P(|C − E C| ≥ n·x) ≤ 2·exp(−2·n·x²).
    support = Setting(Thrifty.NAME, 5, Parameters(epsilon_longitudinal=3.0)).build().estimator.support
    bound = sqrt(log(2 * len(rows) / FALSE_ALARM) / (2 * DEVICES)) / float(present(support).gap)
    assert bound < 0.04
    assert max(truth.values()) - min(truth.values()) > 0.2  # estimates of other values would be seen
    for row in rows:
        assert abs(row["estimate"] - truth[row["epoch"], row["value"]]) < bound


# --- the page


def test_the_page_shows_this_protocol() -> None:
    """Its code block runs, and is the class above."""
    (block,) = re.findall(r"```python\n(from .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block.endswith(inspect.getsource(Thrifty))
    names: dict[str, Any] = {"__name__": "thrifty"}
    exec(block, names)
    parameters = Parameters(epsilon_longitudinal=2.0)
    built, shown = (kind.from_parameters(5, parameters) for kind in (Thrifty, names["Thrifty"]))
    assert (shown.instant, shown.permanent) == (built.instant, built.permanent)
