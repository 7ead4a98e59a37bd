"""Writes the test vectors: ``python -m tests.vectors.generate``.

One file per protocol (and hash family) for devices and servers in any language. Words are integers
below the limit of their draw, taken from SHA-256 so that no generator has to be reproduced; all
integers that may exceed 2**53 are decimal strings, probabilities are ``numerator/denominator``.

A file holds ``steps`` (device, value, the words it drew in order, its memo afterwards, the
payload), what a server must count from all payloads (``support``), the estimates that follow, and
``bad`` payloads with the reason for which they must be refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from ldpbeam.errors import InvalidPayload
from ldpbeam.protocols import FrequencyProtocol, LocalProtocol, Memo
from ldpbeam.protocols.contract import DistributionProtocol
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities
from tests.narrow import present
from tests.reference.counting import count_reports, count_support
from tests.reference.settings import LEVELS, Setting, hash_families
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent
DEVICES = 6
# Repeats and returns, so that memos are met again; the last values of the domain are among them.
HISTORY = ((0, 0, 3, 0), (10, 10, 10, 10), (1, 2, 3, 4), (5, 9, 5, 9), (7, 7, 8, 8), (10, 0, 10, 0))


class Stream(Randomness):
    """Words from SHA-256 of a label and a counter; remembers those given since the last look."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._counter = 0
        self.given: list[int] = []

    def word(self, limit: int = FULL) -> int:
        digest = sha256(f"{self._label}/{self._counter}".encode()).digest()
        self._counter += 1
        # The bias of 2**-192 matters to nobody: these words are fixed for ever.
        word = int.from_bytes(digest, "big") % limit
        self.given.append(word)
        return word

    def taken(self) -> list[str]:
        words, self.given = self.given, []
        return [str(word) for word in words]


def name_of(setting: Setting) -> str:
    """The file's name: the protocol and its hash family, if any."""
    hashes = "hash_family" in setting.kind.OPTIONAL
    return f"{setting.name}_{setting.parameters.hash_family}" if hashes else setting.name


def contents() -> Iterator[tuple[str, str]]:
    """File names and texts of all vectors."""
    for setting in hash_families():
        text = json.dumps(vector(setting), indent=1, ensure_ascii=True)
        yield f"{name_of(setting)}.json", text + "\n"


def vector(setting: Setting) -> dict[str, Any]:
    """Everything about one protocol."""
    built = setting.build()
    stream = Stream(f"ldpbeam vectors {name_of(setting)}")
    steps, payloads = [], []
    memos: list[Memo] = []
    created = []
    for device in range(DEVICES):
        memos.append(built.device.new_memo(stream))
        created.append({"words": stream.taken(), "memo": memo_record(memos[device])})
    for epoch in range(len(HISTORY[0])):
        for device in range(DEVICES):
            value = HISTORY[device][epoch]
            response, memos[device] = built.device.privatize(value, memos[device], stream)
            payloads.append(built.device.encode(response))
            steps.append(
                {
                    "device": device,
                    "epoch": epoch,
                    "value": value,
                    "words": stream.taken(),
                    "memo_after": memo_record(memos[device]),
                    "payload": payloads[-1].hex(),
                }
            )
    probabilities = support_of(built)
    support, estimates = results(built, payloads)
    parameters = setting.parameters
    kind = setting.kind
    return {
        "protocol": kind.NAME,
        "id": kind.ID,
        "domain_size": setting.domain_size,
        "parameters": {
            **{n: parameters.level(n) for n in kind.PARAMETERS if n in LEVELS},
            **({"calibration": parameters.calibration.value} if "calibration" in kind.OPTIONAL else {}),
            **({"hash_family": parameters.hash_family} if "hash_family" in kind.OPTIONAL else {}),
            **built.resolved_parameters(),
        },
        "rounds": rounds(built),
        "support_probabilities": probabilities
        and {"own": str(probabilities.own), "other": str(probabilities.other)},
        **{name: value for name, value in built.device.definition().items() if name in ("margin", "w")},
        "payload_bits": built.device.payload_bits,
        "new_memos": created,
        "steps": steps,
        "support": support,
        "estimates": estimates,
        "bad": bad_payloads(built, payloads[0]),
    }


def support_of(built: LocalProtocol[Any]) -> SupportProbabilities | None:
    """Own and other: of a value, a run, or a mean's bit at its two ends; None where no bit is counted."""
    return built.forgery.ends


def results(built: LocalProtocol[Any], payloads: list[bytes]) -> tuple[list[int], list[float | None] | None]:
    """What is counted for each row, and the estimates; None where no report sampled the value."""
    probabilities = support_of(built)
    if isinstance(built, DistributionProtocol):
        return count_support(built, payloads), None
    if isinstance(built, FrequencyProtocol):
        support, told, unit = count_support(built, payloads), count_reports(built, payloads), 1
    else:
        support, told, unit = (
            [sum(map(built.device.decode, payloads))],
            [len(payloads)],
            built.domain_size - 1,
        )
    if (numbers := built.forgery.numbers) is not None:
        own, other = numbers.high, numbers.low
    else:
        own, other = present(probabilities).own, present(probabilities).other
    return support, [
        float(unit * (Fraction(c, n) - other) / (own - other)) if n else None
        for c, n in zip(support, told, strict=True)
    ]


def rounds(built: LocalProtocol[Any]) -> dict[str, Any]:
    """The integers of both rounds, as a device in another language gets them."""
    definition = built.device.definition()
    missing = [name for name in ("permanent", "instant") if name not in definition]
    if missing or all(definition[name] is None for name in ("permanent", "instant")):
        raise TypeError(
            f"the definition of {built.NAME} lacks {' and '.join(missing) or 'both rounds'}: "
            "vectors say with which integers a device draws"
        )
    return {name: definition[name] for name in ("permanent", "instant")}


def memo_record(memo: Memo) -> dict[str, Any]:
    """Seed and answers; keys as text, as JSON wants them."""
    return {
        "seed": None if memo.seed is None else str(memo.seed),
        "answers": {str(key): str(answer) for key, answer in sorted(memo.answers.items())},
    }


def bad_payloads(built: LocalProtocol[Any], good: bytes) -> list[dict[str, str]]:
    """Payloads to refuse, with the reason that a reject carries."""
    size = built.device.payload_size
    candidates = [b"", good[:-1], good + b"\x00", good * 3, b"\xff" * size, good[:-1] + b"\xff"]
    candidates += [good[:-1] + bytes([1 << bit]) for bit in range(8)]
    # The smallest integer that is too large, as a last byte.
    candidates += [good[:-1] + bytes([last]) for last in range(256)]
    candidates += [good[: size // 2] * 2]  # a sampled bucket twice
    found: dict[bytes, str] = {}
    reasons: dict[str, int] = {}
    for payload in candidates:
        try:
            built.device.decode(payload)
        except InvalidPayload as error:
            reason = error.reason.value
            if payload not in found and reasons.get(reason, 0) < 4:
                found[payload] = reason
                reasons[reason] = reasons.get(reason, 0) + 1
    return [{"payload": payload.hex(), "reason": reason} for payload, reason in found.items()]


if __name__ == "__main__":
    rewrite(DIRECTORY, contents())
