"""The devices of a fleet one by one, in plain Python, fed with their own words."""

from __future__ import annotations

from typing import Any

from ldpbeam.protocols import LocalProtocol, Memo
from ldpbeam.protocols.attributes.base import AttributeProtocol
from ldpbeam.protocols.attributes.sample import Sample
from ldpbeam.protocols.simulation import WordSpec
from ldpbeam.simulators.random_words import RandomWords
from tests.reference.random_words import bit_words
from tests.reference.script import ScriptedRandomness


class Devices:
    """Of one domain, or of several attributes."""

    def __init__(self, kind: LocalProtocol[Any], devices: int, random_words: RandomWords) -> None:
        self.kind, self.random_words = kind, random_words
        self.parts: dict[str, Any] = {"": kind}
        """By what their words' purposes begin with."""
        if isinstance(kind, AttributeProtocol):
            self.parts = {f"{index}.": part for index, part in enumerate(kind.parts)}
        self.memos = [self._new(device) for device in range(devices)]

    def words(self, purpose: str, epoch: int, device: int, spec: WordSpec | None) -> list[int]:
        if spec is None or spec.count == 0:
            return []
        if spec.bits:
            return bit_words(self.random_words.seed, purpose, epoch, device, spec.count)
        return [int(word) for word in self.random_words.step(purpose, epoch, device, 1, spec)[0]]

    def _new(self, device: int) -> Memo:
        chosen, drawn = list(self.parts), list[int]()
        if isinstance(self.kind, Sample):
            drawn = self.words("seed", -1, device, WordSpec(1, len(self.parts)))
            chosen = [chosen[drawn[0]]]
        for begin in chosen:
            plan = self.parts[begin].simulation.word_plan
            drawn += self.words(f"{begin}seed", -1, device, None if plan.seed_per_report else plan.seed)
        script = ScriptedRandomness(drawn)
        memo = self.kind.device.new_memo(script)
        assert script.exhausted()
        return memo

    def payload(self, epoch: int, device: int, value: Any) -> bytes:
        """All words are taken in every epoch, whether or not the input is new."""
        memo, drawn = self.memos[device], list[int]()
        for begin in [f"{memo.seed}."] if isinstance(self.kind, Sample) else self.parts:
            plan = self.parts[begin].simulation.word_plan
            seed = plan.seed if plan.seed_per_report else None
            for purpose, spec in (("seed", seed), ("permanent", plan.permanent), ("instant", plan.instant)):
                drawn += self.words(f"{begin}{purpose}", epoch, device, spec)
        script = ScriptedRandomness(drawn)
        response, kept = self.kind.device.privatize(value, memo, script)
        assert script.exhausted()
        assert (kept is memo) == (kept == memo)
        self.memos[device] = kept
        return self.kind.device.encode(response)
