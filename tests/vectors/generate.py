"""Writes the test vectors: ``python -m tests.vectors.generate``.

One file per protocol (and hash family), and two of strings, for devices and servers in any language.
Words are integers below the limit of their draw, taken from SHA-256 so that no generator has to be
reproduced; all integers that may exceed 2**53 are decimal strings, probabilities are
``numerator/denominator``.

A file holds ``steps`` (device, value, the words it drew in order, its memo afterwards, the
payload), what a server must count from all payloads (``support``), the estimates that follow, and
``bad`` payloads with the reason for which they must be refused. A value of strings is the fingerprints of
a text; ``support`` has a row for each prefix length and a column for each of ``texts``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from ldpbeam.errors import InvalidPayload
from ldpbeam.hashing.listed import public_word
from ldpbeam.hashing.strings import Strings
from ldpbeam.protocols import FrequencyProtocol, LocalProtocol, Memo, Parameters
from ldpbeam.protocols.contract import DistributionProtocol
from ldpbeam.protocols.prefixes import Prefixes, of_strings
from ldpbeam.randomness import FULL, Randomness
from ldpbeam.support import SupportProbabilities
from tests.narrow import present
from tests.reference.counting import affine_hash, count_reports, count_support
from tests.reference.settings import LEVELS, Setting, hash_families
from tests.vectors.writing import rewrite

DIRECTORY = Path(__file__).parent
DEVICES = 6
# Repeats and returns, so that memos are met again; the last values of the domain are among them.
HISTORY = ((0, 0, 3, 0), (10, 10, 10, 10), (1, 2, 3, 4), (5, 9, 5, 9), (7, 7, 8, 8), (10, 0, 10, 0))
TEXTS = ("", "a", "ab", "abba", "abbacd", "ABBACE", "é🦊", "🦊é🦊é🦊é", "abbacdx", "nothing", "b")
# With weights whose sum is a power of two: a level that shared its word with the function would show.
_SEVERAL = Strings(6, "abcdeé🦊", fold=True, drop=False, lengths=(2, 4, 6), weights=(9, 9, 14))
_ONE = replace(_SEVERAL, drop=True, lengths=(6,), weights=(1,))
STRINGS = {
    "strings_loloha": (_SEVERAL, "loloha", Parameters(epsilon_longitudinal=2.0, epsilon_first=1.0)),
    "strings_olh": (_ONE, "olh", Parameters(epsilon=1.0)),
}
"""Strings, and the protocol of each length."""


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
        yield f"{name_of(setting)}.json", json.dumps(vector(setting), indent=1, ensure_ascii=True) + "\n"
    for name, level in STRINGS.items():
        yield f"{name}.json", json.dumps(vector_of_strings(name, *level), indent=1, ensure_ascii=True) + "\n"


def vector(setting: Setting) -> dict[str, Any]:
    """Everything about one protocol."""
    built = setting.build()
    played, payloads = play(name_of(setting), built, range(setting.domain_size))
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
        **played,
        "support": support,
        "estimates": estimates,
        "bad": bad_payloads(built, payloads[0]),
    }


def vector_of_strings(name: str, strings: Strings, level: str, parameters: Parameters) -> dict[str, Any]:
    """The same of one prefix length for life, and of the listed family."""
    built = of_strings(level, strings, parameters)
    held = [strings.fingerprints(text) for text in TEXTS]
    played, payloads = play(f"{name} of texts", built, held)
    return {
        "protocol": built.NAME,
        "id": built.ID,
        "domain_size": built.domain_size,
        "strings": {**asdict(strings), "level": level},
        "parameters": {n: parameters.level(n) for n in LEVELS if getattr(parameters, n) is not None},
        "rounds": rounds(built.parts[0]),
        "payload_bits": built.device.payload_bits,
        "texts": TEXTS,
        **played,
        "support": support_of_prints(built, held, payloads),
        "bad": bad_payloads(built, payloads[0]),
    }


def support_of_prints(built: Prefixes, held: Sequence[tuple[int, ...]], payloads: list[bytes]) -> list[Any]:
    """For each prefix length the support of each text's fingerprint, report by report."""
    found = [[0] * len(held) for _ in built.parts]
    for length, (seed, symbol) in map(built.device.decode, payloads):
        a, c = public_word(2 * seed), public_word(2 * seed + 1)
        for place, prints in enumerate(held):
            found[length][place] += affine_hash(a, c, prints[length], built.estimator.level.g) == symbol
    return found


def play(name: str, built: LocalProtocol[Any], held: Sequence[Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Lives of a few devices, which hold some of the values, and all payloads."""
    stream = Stream(f"ldpbeam vectors {name}")
    steps, payloads = [], []
    memos: list[Memo] = []
    created = []
    for device in range(DEVICES):
        memos.append(built.device.new_memo(stream))
        created.append({"words": stream.taken(), "memo": memo_record(memos[device])})
    for epoch in range(len(HISTORY[0])):
        for device in range(DEVICES):
            value = held[HISTORY[device][epoch]]
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
    return {"new_memos": created, "steps": steps}, payloads


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
        **({"parts": [memo_record(part) for part in memo.parts]} if memo.parts else {}),
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
