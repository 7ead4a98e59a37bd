"""The golden bytes of docs/wire.md, computed from a fixed secret by the reference and the core."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from ldpbeam.client.derivation import WHOLE
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.device_definition import device_definition
from ldpbeam.collection.file import load_collection
from ldpbeam.protocols import LocalProtocol
from ldpbeam.protocols.bit_flip import BitFlip
from ldpbeam.protocols.local_hash import LocalHash
from ldpbeam.protocols.prefixes import Prefixes
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.reference import derived, strings
from tests.reference.channels import memo_key
from tests.reference.counting import cuts
from tests.reference.script import ScriptedRandomness
from tests.vectors import definitions

SECRET = bytes(range(32))
VALUE, TEXT, EPOCH = 5, "abba", 7
LATER = 1000
"""Seconds after the start of the epoch at which the example's device reports."""


def minutes() -> Collection:
    return load_collection(REPOSITORY / "examples" / "minutes_in_app.yaml")


def vector(name: str) -> Collection:
    return dict(definitions.collections())[name]


class Drawn:
    """One report of a device with the fixed secret: its words, and what they gave."""

    def __init__(self, agreed: Collection) -> None:
        self.agreed = agreed
        self.digest = agreed.full_digest
        kind = self.kind = agreed.protocol
        self.held, self.part, head = [VALUE], 0, b""
        if isinstance(kind, Prefixes):
            self.part = WHOLE
            self.held = strings.fingerprints(device_definition(agreed)["domain"]["strings"], TEXT)
            self.length_word = self.stream(derived.ONCE, 0).word(sum(kind.device.weights))
            self.part = strings.drawn(kind.device.weights, self.length_word)
            kind, head = kind.parts[self.part], bytes([self.part])
        value = self.held[self.part]
        once = self.stream(derived.ONCE, 0)
        self.once = _words_once(kind, once)
        self.memo = kind.device.new_memo(ScriptedRandomness(self.once))
        self.input = memo_key(kind, self.memo.seed, value)
        permanent = self.stream(derived.PERMANENT, self.input)
        fresh = self.stream(derived.FRESH, EPOCH, derived.about(*self.held))
        plan = kind.simulation.word_plan
        assert plan.permanent is not None
        self.permanent = [permanent.word(limit) for limit in plan.permanent.limits]
        self.fresh = [fresh.word(limit) for limit in plan.instant.limits]
        script = ScriptedRandomness(self.permanent + self.fresh)
        self.response, after = kind.device.privatize(value, self.memo, script)
        assert script.exhausted()
        (self.answer,) = after.answers.values()
        self.payload = head + kind.device.encode(self.response)
        self.report_id = derived.stream(SECRET, self.digest, derived.REPORT_ID, 0, EPOCH).word()
        self.message = report_pb2.Report(
            digest=agreed.digest, epoch=EPOCH, report_id=self.report_id, payload=self.payload
        ).SerializeToString()

    def stream(self, purpose: int, number: int, end: bytes = b"") -> derived.Stream:
        return derived.stream(SECRET, self.digest, purpose, self.part, number, end)


def _words_once(kind: LocalProtocol[Any], once: derived.Stream) -> list[int]:
    seed = kind.simulation.word_plan.seed
    return [] if seed is None else [once.word(limit) for limit in seed.limits]


def lines(*pairs: tuple[str, object]) -> str:
    return "\n".join(f"{name:<17}{text}" for name, text in pairs)


def words() -> str:
    digest = minutes().full_digest
    label = derived.label(digest, derived.FRESH, 0, EPOCH) + derived.about(VALUE)
    key = hmac.digest(SECRET, label, "sha256")
    found = derived.Stream(key)
    return lines(
        ("secret", SECRET.hex()),
        ("label", label[:17].hex(" ")),
        ("", label[17:33].hex(" ")),
        ("", label[33:49].hex(" ")),
        ("", label[49:62].hex(" ")),
        ("", label[62:78].hex(" ")),
        ("", label[78:].hex(" ")),
        ("key", key.hex()),
        ("block 0", hmac.digest(key, bytes(8), "sha256").hex()),
        ("words", " ".join(f"{found.word():016x}" for _ in range(2)) + " …"),
    )


def _symbol(kind: Any, given: int, word: int, got: int) -> str:
    how = "below keep" if word < kind.keep else f"(word − keep) div each = {(word - kind.keep) // kind.each}"
    return f"{word:016x}, {how}: {given} becomes {got}"


def report() -> str:
    """LOLOHA with the linear family, step by step."""
    found = Drawn(minutes())
    kind = found.kind
    assert isinstance(kind, LocalHash) and kind.rounds.permanent is not None
    (seed_word,) = found.once
    seeds = kind.family.points - 1  # type: ignore[attr-defined]
    seed, symbol = found.response
    share = found.stream(derived.SENDING_TIME, EPOCH).word()
    epochs = found.agreed.epochs
    now = epochs.start(EPOCH) + LATER
    left = epochs.end(EPOCH) - now
    raw = found.message
    return lines(
        ("once", f"{seed_word:016x} mod {seeds} + 1 = {seed}, the seed"),
        ("input", f"H({VALUE}) = {found.input}"),
        ("permanent", _symbol(kind.rounds.permanent, found.input, found.permanent[0], found.answer)),
        ("fresh", _symbol(kind.rounds.last, found.answer, found.fresh[0], symbol)),
        ("payload", f"({seed} − 1)·{kind.g} + {symbol} = {(seed - 1) * kind.g + symbol}"),
        ("report", f"{raw[:9].hex(' ')}   digest"),
        ("", f"{raw[9:11].hex(' ')}                        epoch {EPOCH}, zigzag: {2 * EPOCH}"),
        ("", f"{raw[11:20].hex(' ')}   report id {found.report_id:016x}"),
        ("", f"{raw[20:].hex(' ')}                  payload, {len(found.payload)} bytes"),
        ("sending time", f"{share:016x}·{left} >> 64 = {left * share >> 64} s after a report at {now}"),
    )


def golden(name: str, show: Callable[[Drawn], list[tuple[str, object]]]) -> str:
    found = Drawn(vector(name))
    size = "" if found.kind.SEVERAL else f", k = {found.kind.domain_size}"
    pairs: list[tuple[str, object]] = [
        ("collection", f"tests/vectors/definitions/{name}.json{size}"),
        *show(found),
    ]
    raw = found.message
    for first, at in zip(("report", *[""] * (len(raw) // 27)), range(0, len(raw), 27), strict=True):
        pairs.append((first, raw[at : at + 27].hex(" ")))
    return lines(*pairs)


def affine() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        a, c = found.once
        return [
            ("once", f"a = {a:016x}, c = {c:016x}"),
            ("input", f"H({VALUE}) = {found.input} of {found.kind.g} symbols"),  # type: ignore[attr-defined]
            ("permanent", f"{found.permanent[0]:016x}: {found.input} becomes {found.answer}"),
            ("fresh", f"{found.fresh[0]:016x}: {found.answer} becomes {found.response.symbol}"),
        ]

    return golden("loloha_affine", show)


def interval() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        (word,) = found.once
        seed, symbol = found.response
        g, size = found.kind.g, found.kind.domain_size  # type: ignore[attr-defined]
        places = ", ".join(map(str, cuts(seed, g, size)))
        return [
            ("once", f"{word:016x} mod 64 = {seed}, the seed: cuts {places}"),
            ("input", f"H({VALUE}) = {found.input}, as many cuts are at most {VALUE}"),
            ("permanent", f"{found.permanent[0]:016x}: {found.input} becomes {found.answer}"),
            ("fresh", f"{found.fresh[0]:016x}: {found.answer} becomes {symbol}"),
            ("payload", f"{seed}·{g} + {symbol} = {seed * g + symbol}"),
        ]

    return golden("loloha_interval", show)


def direct() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        return [
            ("permanent", f"{found.permanent[0]:016x}: {VALUE} becomes {found.answer}"),
            ("fresh", f"{found.fresh[0]:016x}: {found.answer} becomes {found.response}"),
        ]

    return golden("l_grr", show)


def _bits(number: int, count: int) -> str:
    return " ".join(str(number >> i & 1) for i in range(count))


def unary() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        k = found.kind.domain_size
        return [
            ("one-hot", _bits(1 << VALUE, k)),
            ("permanent", f"{_bits(found.answer, k)}, first word {found.permanent[0]:016x}"),
            ("fresh", f"{_bits(found.response, k)}, first word {found.fresh[0]:016x}"),
        ]

    return golden("l_osue", show)


def bit_flip() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        kind = found.kind
        assert isinstance(kind, BitFlip)
        kept = found.response.indices
        return [
            ("once", f"{' '.join(f'{word:016x}' for word in found.once)}: buckets {kept[0]} and {kept[1]}"),
            ("input", f"{found.input}, since {VALUE} {'is' if VALUE in kept else 'is not'} among them"),
            ("permanent", f"bits {_bits(found.answer, kind.d)}, first word {found.permanent[0]:016x}"),
        ]

    return golden("dbitflip_pm", show)


def texts() -> str:
    def show(found: Drawn) -> list[tuple[str, object]]:
        (word,), (seed, symbol), g = found.once, found.response, found.kind.parts[0].g  # type: ignore[attr-defined]
        return [
            ("fingerprints", ", ".join(f"{one:08x}" for one in found.held)),
            ("once", f"word {found.length_word}: i = {found.part}; {word:016x}: seed {seed}"),
            ("input", f"H({found.held[found.part]:08x}) = {found.input} of {g} symbols"),
            ("permanent", f"{found.permanent[0]:016x}: {found.input} becomes {found.answer}"),
            ("fresh", f"{found.fresh[0]:016x}: {found.answer} becomes {symbol}"),
        ]

    return golden("strings_loloha", show)


def slice_digest() -> str:
    """Of minutes_in_app, had it these slices."""
    digest, texts = minutes().full_digest, ("channel", "beta", "country", "Österreich")
    packed = [len(text.encode()).to_bytes(4, "little") + text.encode() for text in texts]
    hashed = b"ldpbeam slice 1\0" + digest + b"".join(packed)
    pairs = [("" if i else "hashed", one) for i, one in enumerate((hashed[:16], digest[:16], digest[16:]))]
    return lines(
        *((name, part.hex(" ")) for name, part in pairs),
        *(("", f"{part.hex(' '):<49}{text}") for part, text in zip(packed, texts, strict=True)),
        ("digest", sha256(hashed).digest()[:8].hex(" ")),
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "slice": slice_digest,
    "words": words,
    "report": report,
    "affine": affine,
    "interval": interval,
    "direct": direct,
    "unary": unary,
    "bit-flip": bit_flip,
    "strings": texts,
}
