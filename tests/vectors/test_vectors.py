"""Replays the committed vectors against device and server, and keeps the files complete and
current.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.errors import InvalidPayload
from ldpbeam.hashing.strings import Strings
from ldpbeam.kernels.check_codes import CheckCode
from ldpbeam.protocols import PROTOCOLS, LocalProtocol, Parameters, protocol
from ldpbeam.protocols.contract import DistributionProtocol
from ldpbeam.protocols.prefixes import Prefixes, of_strings
from tests.reference.script import ScriptedRandomness
from tests.vectors.generate import contents, memo_record, support_of

FILES = sorted(Path(__file__).parent.glob("*.json"))
every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def load(path: Path) -> tuple[dict[str, Any], LocalProtocol[Any]]:
    """The vector and the protocol built from what it says, not from what generated it."""
    vector = json.loads(path.read_text("ascii"))
    chosen = dict(vector["parameters"])
    if "strings" in vector:
        stated: Any = {key: tuple(o) if isinstance(o, list) else o for key, o in vector["strings"].items()}
        return vector, of_strings(stated.pop("level"), Strings(**stated), Parameters(**chosen))
    if "calibration" in chosen:
        chosen["calibration"] = Calibration(chosen["calibration"])
    if "g" not in PROTOCOLS[vector["protocol"]].OPTIONAL:
        chosen.pop("g", None)
    return vector, protocol(vector["protocol"], vector["domain_size"], Parameters(**chosen))


def test_every_protocol_has_its_vectors_and_they_are_current() -> None:
    """A changed byte, probability or estimate shows here; so does a protocol without a file."""
    fresh = dict(contents())
    assert {path.name for path in FILES} == set(fresh)
    assert {json.loads(text)["protocol"] for text in fresh.values()} == {*PROTOCOLS, Prefixes.NAME}
    for path in FILES:
        assert path.read_text("ascii") == fresh[path.name], path.name


@every
def test_constants_are_those_of_the_vector(path: Path) -> None:
    """IDs, integers of both rounds and support probabilities never change meaning."""
    vector, built = load(path)
    assert vector["id"] == type(built).ID
    assert built.device.payload_bits == vector["payload_bits"]
    definition = built.parts[0].device.definition()
    for name, record in vector["rounds"].items():
        assert definition[name] == record
    for name in ("margin", "w"):
        assert definition.get(name) == vector.get(name)
    probabilities = support_of(built)
    stated: Any = vector.get("support_probabilities")
    if probabilities is None:
        assert stated is None
    else:
        assert (str(probabilities.own), str(probabilities.other)) == (stated["own"], stated["other"])


@every
def test_devices_replay_every_step(path: Path) -> None:
    """Given words give the given memo and payload, using each word exactly once."""
    vector, built = load(path)
    memos = []
    for created in vector["new_memos"]:
        words = ScriptedRandomness(map(int, created["words"]))
        memos.append(built.device.new_memo(words))
        assert words.exhausted()
        assert memo_record(memos[-1]) == created["memo"]
    for step in vector["steps"]:
        words = ScriptedRandomness(map(int, step["words"]))
        device = step["device"]
        response, memos[device] = built.device.privatize(step["value"], memos[device], words)
        assert words.exhausted()
        assert memo_record(memos[device]) == step["memo_after"]
        assert built.device.encode(response).hex() == step["payload"]
        assert built.device.decode(bytes.fromhex(step["payload"])) == response


@every
def test_servers_count_and_estimate_as_stated(path: Path) -> None:
    """Support counts to the last unit, estimates to 1e-12; a distribution has none of single values."""
    vector, built = load(path)
    raw = b"".join(bytes.fromhex(step["payload"]) for step in vector["steps"])
    payloads = np.frombuffer(raw, np.uint8).reshape(-1, built.device.payload_size)
    assert not built.counter.check(payloads).any()
    counts = np.zeros(built.counter.counts_length, np.int64)
    built.counter.add(payloads, counts)
    if isinstance(built, Prefixes):
        prints = np.array([built.strings.fingerprints(text) for text in vector["texts"]], np.uint32).T
        spans, family = built.counter.spans, built.estimator.level.family
        table = [
            family.support_of(counts[span], row).tolist() for span, row in zip(spans, prints, strict=True)
        ]
        assert table == vector["support"]
        assert min(map(max, table)) > 0, "a length that nobody drew"
        return
    support = built.counter.support_counts(counts)
    assert support.tolist() == vector["support"]
    assert (vector["estimates"] is None) == isinstance(built, DistributionProtocol)
    if vector["estimates"] is None:
        return
    found = built.estimator.estimate(counts, len(payloads))
    stated = [float("nan") if e is None else e for e in vector["estimates"]]
    assert found.frequency == pytest.approx(stated, rel=1e-12, abs=1e-12, nan_ok=True)


@every
def test_bad_payloads_are_refused_for_the_stated_reason(path: Path) -> None:
    """Wrong lengths everywhere; and each reason that the protocol's format can give at all."""
    vector, built = load(path)
    reasons = {bad["reason"] for bad in vector["bad"]}
    assert "wrong_length" in reasons
    for bad in vector["bad"]:
        payload = bytes.fromhex(bad["payload"])
        with pytest.raises(InvalidPayload) as caught:
            built.device.decode(payload)
        assert caught.value.reason.value == bad["reason"]
        if len(payload) == built.device.payload_size:
            code = built.counter.check(np.frombuffer(payload, np.uint8)[None, :])[0]
            assert CheckCode(code).reason is caught.value.reason
    if 256**built.device.payload_size > 1 << built.device.payload_bits:
        assert len(reasons) > 1
