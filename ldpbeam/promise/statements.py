"""The sentences about guarantee, cap and losses, each written once; planning/statements.py has the others.

`plan`, `check`, `explain`, the page and run.json print these and no others, so that all five say the same of
the same thing. A sentence holds its number; an ε never stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, log10

from ldpbeam.privacy.counters import CountersGuarantee
from ldpbeam.privacy.guarantee import MemoisedInputs
from ldpbeam.promise.promise import Guess, Promise
from ldpbeam.protocols.estimator import Result

OTHER_COLLECTIONS = (
    "Other collections. What a device reports to another collection, or to another version of this one, "
    "adds to all of this."
)


NO_TURN = (
    "A device draws its epochs before it is first used: one that joins after them, or is away in them, never "
    "reports."
)
"""Of devices that report in some of their epochs only."""


LIKELY = 0.5
"""A promise says how often the best guess of a device's value is right, from this chance on."""


@dataclass(frozen=True)
class Statement:
    """One promise to a device."""

    key: str
    title: str
    level: float
    text: str

    def as_record(self) -> dict[str, object]:
        """For JSON, which has no infinity: null."""
        level = None if self.level == inf else self.level
        return {
            **{"key": self.key, "title": self.title, "level": level, "value": self.value},
            "text": self.text,
        }

    @property
    def value(self) -> str:
        return _in_100(self.level) if self.key == "best_guess" else epsilon(self.level)


def epsilon(level: float) -> str:
    """A loss for people, in four digits, rounded up: what is promised is never more than what is kept."""
    if level == inf:
        return "no bound"
    if level <= 0:
        return "0"
    # Levels are rounded up in their last digit already: 2.0000000000000004 is 2.
    step = 10.0 ** (floor(log10(level)) - 3)
    return f"{ceil(level / step * (1 - 1e-9)) * step:.4g}"


def bits(number: int) -> str:
    """So many bits, for people."""
    return "1 bit" if number == 1 else f"{number:,} bits"


def statements(promise: Promise) -> tuple[Statement, ...]:
    """All that is promised, in the order in which a reader needs it."""
    sentences = [_first(promise)]
    if promise.memoised:
        sentences += _memoised(promise)
    if promise.reports > 1 or promise.of is not None:
        sentences.append(_anything(promise))
    if promise.guess.from_all >= LIKELY:
        sentences.append(_guess(promise, promise.guess))
    return tuple(sentences)


def _first(promise: Promise) -> Statement:
    which = "A first report" if promise.memoised else "A report"
    text = f"{which} tells at most ε = {epsilon(promise.first_report)}"
    counters = _counters(promise)
    if counters is not None:
        text += (
            f", if the counters of the device add up to at most {counters.limit:,} in an epoch; else at most "
            f"ε = {epsilon(counters.unbounded)}"
        )
    return Statement(
        "first_report", "First report" if promise.memoised else "One report", promise.first_report, f"{text}."
    )


def _counters(promise: Promise) -> CountersGuarantee | None:
    """The guarantee of bounded counters, where the bound makes its levels lower."""
    guarantee = promise.protocol.guarantee
    if not isinstance(guarantee, CountersGuarantee) or epsilon(guarantee.first_report) == epsilon(
        guarantee.unbounded
    ):
        return None
    return guarantee


def _condition(promise: Promise, level: float, without: float | None) -> str:
    """What stands behind a level that rests on bounded counters: one that would be higher without a bound."""
    rests = _counters(promise) is not None and without is not None and epsilon(level) != epsilon(without)
    return ", on the same condition" if rests else ""


def _memoised(promise: Promise) -> Iterator[Statement]:
    """What several reports of a device with a memo tell: two, all about one value, all about its inputs."""
    two, unchanged, several = promise.two_reports, promise.unchanged, promise.attributes > 1
    if two is not None:
        text = (
            "Two different reports of a device prove that its value changed."
            if two == inf
            else f"Two reports tell at most ε = {epsilon(two)}, whatever changed between them."
        )
        yield Statement("two_reports", "Two reports", two, text)
    if unchanged is not None and promise.reports > 1:
        stays = "none of a device's values changes" if several else "a device's value stays the same"
        condition = _condition(promise, unchanged, promise.protocol.guarantee.per_memoised_input)
        text = f"While {stays}, all its reports together tell at most ε = {epsilon(unchanged)}{condition}."
        yield Statement("unchanged", "All reports about one value", unchanged, text)
    if promise.inputs_loss < promise.any_loss:
        yield _inputs(promise)


def _inputs(promise: Promise) -> Statement:
    """What is told about memoised inputs; that is a promise about values only where the inputs are values."""
    noun, loss = promise.inputs.value, epsilon(promise.inputs_loss)
    of = "" if promise.attributes == 1 else " of each attribute"
    held = "it held" if promise.inputs is MemoisedInputs.VALUES else "its values had"
    text = (
        f"{_these(promise)} tell at most ε = {loss} about which {noun}s{of} {held}, to somebody who knows "
        "when each changed and came back."
    )
    if promise.inputs is not MemoisedInputs.VALUES:
        text += " That is no limit for what they tell about its values."
    return Statement("inputs", f"Which {noun}s, times known", promise.inputs_loss, text)


def _anything(promise: Promise) -> Statement:
    loss = promise.any_loss
    # Losses of several reports are enumerated without a bound, where there is a memo; else they are sums.
    counters = _counters(promise)
    summed = counters is not None and (not promise.memoised or promise.reports == 1)
    condition = _condition(
        promise, loss, promise.reports * counters.unbounded if summed and counters else None
    )
    limit = f"tell at most ε = {epsilon(loss)}, whatever changes{condition}"
    if promise.of is not None:
        reports = "one" if promise.reports == 1 else f"{promise.reports:,}"
        drawn = f"A device reports in {reports} of its {promise.of:,} epochs, drawn for life"
        unlimited = "nothing limits what its reports tell about changes"
        text = f"{drawn}: {unlimited if loss == inf else f'all its reports {limit}'}."
    elif loss == inf:
        text = f"Nothing limits what {promise.reports:,} reports of a device tell about when a value changed."
    else:
        text = f"{_these(promise)} {limit}."
        text = text if promise.memoised else f"Nothing is memoised: {text}"
    return Statement("any_changes", "All reports, whatever changes", loss, text)


def _guess(promise: Promise, guess: Guess) -> Statement:
    """How often the best guess is right: what a level of ε means for one device."""
    attribute = " of the attribute that is guessed best" if promise.attributes > 1 else ""
    all_of_them = "both" if guess.values == 2 else f"all {guess.values:,}"
    even = f"{all_of_them} values{attribute} being equally likely"
    what = "value"
    if promise.protocol.estimator.result is Result.DISCOVERED:
        what, even = "prefix", "of 2³² fingerprints, all equally likely"
    text = f"The best guess of a device's {what} from one report is right in {_in_100(guess.from_one)} cases"
    if promise.reports > 1:
        text += f", from {promise.reports:,} reports in {_in_100(guess.from_all)} if the value stays the same"
    return Statement("best_guess", "Best guess of a value", guess.from_all, f"{text} ({even}).")


def _in_100(probability: float) -> str:
    """A probability in hundredths: one digit after the point, never 100 where it is less."""
    hundredths = round(100 * probability, 1)
    return "more than 99.9 of 100" if hundredths == 100 and probability < 1 else f"{hundredths:g} of 100"


def _these(promise: Promise) -> str:
    return f"{'All' if promise.of is not None else f'{promise.reports:,}'} reports of a device"


def in_short(promise: Promise) -> str:
    """The losses in a line, for the head of a run; never a bare ε."""
    first, loss, counters = epsilon(promise.first_report), promise.any_loss, _counters(promise)
    if counters is not None:
        first += f" if counters add up to at most {counters.limit:,}"
    if promise.reports == 1:
        return f"the only report of a device tells ε ≤ {first}"
    parts = [f"a {'first ' if promise.memoised else ''}report tells ε ≤ {first}"]
    if promise.unchanged is not None:
        parts.append(f"all reports about one value ε ≤ {epsilon(promise.unchanged)}")
    known = "without a bound" if loss == inf else f"ε ≤ {epsilon(loss)}"
    return ", ".join([*parts, f"{promise.reports:,} reports {known} whatever changes"])


def promise_record(promise: Promise) -> dict[str, object]:
    """What run.json says of a promise: its numbers, its sentences, and what they leave out."""
    return {
        **promise.as_record(),
        "statements": [one.as_record() for one in statements(promise)],
        "not_capped": OTHER_COLLECTIONS,
    }
