"""Clients in a process of their own: an honest one, and what becomes of broken ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ldpbeam.audit.audit import audit
from ldpbeam.audit.checks.outcome import AuditOutcome, Check
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import DrawPlan
from ldpbeam.audit.client.external import ExternalClient
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.errors import UsageError
from tests.conftest import REPOSITORY

PLAN = DrawPlan(draws=1200, lasting=60, swept=(32, 10))

ONE = """
name: asked
domain: {size: 6}
protocol: loloha
g: 2
epsilon_longitudinal: 2.0
epsilon_first: 1.9
epoch: {length: 1d, count: 500}
slices: {channel: [release, be ta], arm: [é]}
"""
SEVERAL = """
name: asked
attributes:
  - {name: a, domain: {range: {max: 60, buckets: 3}}}
  - {name: b, domain: {labels: [p, q, r, s]}}
allocation: split
protocol: grr
epsilon: 2.0
epoch: {length: 1d}
"""
TEXTS = """
name: asked
domain: {strings: {max_length: 5, symbols: ab é🦊, fold: true}}
protocol: olh
epsilon: 2.0
epoch: {length: 1d}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path / "one.yaml"


def command(file: Path, broken: str = "") -> str:
    return f"{sys.executable} {REPOSITORY}/tests/ldpbeam/audit/line_client.py {file} {broken}"


def audited(file: Path, broken: str = "") -> AuditOutcome:
    with ExternalClient(command(file, broken), load_collection(file)) as client:
        return audit(client, load_collection(file), PLAN, 1e-9)


@pytest.mark.parametrize(
    "text",
    [pytest.param(one, id=name) for name, one in (("one", ONE), ("several", SEVERAL), ("texts", TEXTS))],
)
@pytest.mark.thorough
def test_an_honest_client_passes(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")
    outcome = audited(file)
    assert outcome.violations == []
    elsewhere = {Check.FORK, Check.COLLECTIONS, Check.PARTICIPATION}
    if text != ONE:
        elsewhere.add(Check.MEMO)  # a protocol of one round keeps no answers
    assert {one.check for one in outcome.checks} == set(Check) - elsewhere
    unseen = {"Forks:", "Several", "All" if text == TEXTS else "Generators"}
    assert {one.partition(" ")[0] for one in outcome.left_out} == unseen


@pytest.mark.thorough
def test_a_client_that_forgets_when_it_is_opened_again_is_found(file: Path) -> None:
    assert Check.REOPEN in audited(file, "forgets").failed


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("dies", "ended with exit code 3 before it had answered"),
        ("garbage", "answered with something that is not hexadecimal"),
        ("deaf", "did not answer ok"),
    ],
)
def test_a_client_that_cannot_be_audited_is_an_error(file: Path, broken: str, said: str) -> None:
    with pytest.raises(UsageError, match=rf"{said}.*E-AUDIT-CLIENT"):
        audited(file, broken)


def test_a_client_that_hangs_is_ended(file: Path) -> None:
    with ExternalClient(command(file, "hangs"), load_collection(file), patience=20.0) as client:
        client._patience = 0.5 if client.reports([ClientHistory([1], [0])])[0][0] else 0.0
        with pytest.raises(UsageError, match="has not answered for"):
            client.reports([ClientHistory([1], [0])])


@pytest.mark.parametrize("wrong", ["no-such-program-anywhere", "", "'unbalanced"])
def test_a_command_that_cannot_be_started_is_an_error(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be started.*E-AUDIT-CLIENT"):
        ExternalClient(wrong, parse_collection(ONE))


@pytest.mark.thorough
def test_many_lines_at_once_do_not_block(file: Path) -> None:
    """More than pipes hold, in both directions."""
    with ExternalClient(command(file), load_collection(file)) as client:
        answers = client.reports([ClientHistory([1] * 400, range(400))] * 60)
    assert len(answers) == 60
    assert all(message is not None for row in answers for message in row)
