"""The sentences about guarantee, cap, losses, shuffling and errors, each written once.

`plan`, `check`, `explain`, the page and run.json print these and no others, so that all five say the same of
the same thing. A sentence holds its number; an ε never stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, log10
from typing import TYPE_CHECKING

from ldpbeam.collection.epochs import duration
from ldpbeam.privacy.guarantee import Inputs
from ldpbeam.privacy.promise import Guess, Promise

if TYPE_CHECKING:
    from ldpbeam.planning.checked import Expected
    from ldpbeam.planning.shuffled import Shuffled

CHANGE_IS_PROVED = "Changes. Two different reports of a device prove that its value changed."
"""Of devices that send what they memoised as it is."""

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
"""Chances of the best guess of a device's value from which on a promise says them."""


@dataclass(frozen=True)
class Statement:
    """One promise to a device.

    Attributes:
        key: what it is about, for programs: ``first_report``, ``two_reports``, ``unchanged``, ``inputs``,
            ``any_changes``, ``best_guess``.
        title: the same for people, as the head of a line.
        level: ε; infinite where nothing limits a loss; of ``best_guess`` a probability.
        text: the sentence.
    """

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
        """The number for people."""
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


def statements(promise: Promise) -> tuple[Statement, ...]:
    """All that is promised, what a reader needs first in the first place."""
    found = [_first(promise)]
    if promise.memoised:
        found += _memoised(promise)
    if promise.reports > 1 or promise.of is not None:
        found.append(_anything(promise))
    if promise.guess is not None and promise.guess.from_all >= LIKELY:
        found.append(_guess(promise, promise.guess))
    return tuple(found)


def _first(promise: Promise) -> Statement:
    which = "A first report" if promise.memoised else "A report"
    text = f"{which} tells at most ε = {epsilon(promise.first_report)}."
    return Statement(
        "first_report", "First report" if promise.memoised else "One report", promise.first_report, text
    )


def _memoised(promise: Promise) -> Iterator[Statement]:
    """What several reports of a device with a memo tell: two, all about one value, all that are renamed."""
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
        text = f"While {stays}, all its reports together tell at most ε = {epsilon(unchanged)}."
        yield Statement("unchanged", "All reports about one value", unchanged, text)
    if promise.inputs_loss < promise.any_loss:
        yield _inputs(promise)


def _inputs(promise: Promise) -> Statement:
    """About memoised inputs, by one that knows the times: of values only where inputs are values."""
    noun, loss = promise.inputs.value, epsilon(promise.inputs_loss)
    of = "" if promise.attributes == 1 else " of each attribute"
    begin = f"{_these(promise)} tell at most ε = {loss} about which {noun}s"
    if promise.inputs is Inputs.VALUES:
        text = f"{begin}{of} a device held, to somebody who knows when each value changed and came back."
    else:
        text = (
            f"{begin}{of} its values had, to somebody who knows when each {noun} changed and came back. That "
            f"limits nothing about values: values that change at the same epochs can have {noun}s that "
            "change at different ones."
        )
    return Statement("inputs", f"Which {noun}s, times known", promise.inputs_loss, text)


def _anything(promise: Promise) -> Statement:
    loss = promise.any_loss
    limit = f"tell at most ε = {epsilon(loss)}, whatever changes"
    if promise.of is not None:
        reports = "one" if promise.reports == 1 else f"{promise.reports:,}"
        drawn = f"A device reports in {reports} of its {promise.of:,} epochs, drawn for life"
        told = (
            "nothing limits what its reports tell about changes"
            if loss == inf
            else f"all its reports {limit}"
        )
        text = f"{drawn}: {told}."
    elif loss == inf:
        text = f"Nothing limits what {_these(promise)} tell about when a value changed."
    else:
        text = f"{_these(promise)} {limit}."
        text = text if promise.memoised else f"Nothing is memoised: {text}"
    return Statement("any_changes", "All reports, whatever changes", loss, text)


def _guess(promise: Promise, guess: Guess) -> Statement:
    """How often the best guess is right: what a level of ε means for one device."""
    attribute = " of the attribute that is guessed best" if promise.attributes > 1 else ""
    even = f"all {guess.values:,} values{attribute} being equally likely"
    text = f"The best guess of a device's value from one report is right in {_in_100(guess.from_one)} cases"
    if promise.reports > 1:
        all_of_them = "both its" if promise.reports == 2 else f"all its {promise.reports:,}"
        text += f", from {all_of_them} reports in {_in_100(guess.from_all)} if the value stays the same"
    return Statement("best_guess", "Best guess of a value", guess.from_all, f"{text} ({even}).")


def _in_100(probability: float) -> str:
    """A probability in hundredths: one digit after the point, never 100.0 where it is less."""
    hundredths = min(round(100 * probability, 1), 99.9 if probability < 1 else 100.0)
    return f"{hundredths:g} of 100"


def _these(promise: Promise) -> str:
    return "All its reports" if promise.of is not None else f"{promise.reports:,} reports"


# --- a shuffler


def behind_shuffler(found: Shuffled | None, assumption: str, delta: float) -> str:
    """What a server learns that sees the reports of an epoch only as a set."""
    if found is None:
        return "Behind a shuffler: nothing is known for this protocol."
    crowd = f"{found.devices:,} honest devices in each epoch"
    if found.functions > 1:
        crowd += f", of which about 1 in {found.functions:,} has the same hash function"
    text = f"Behind a shuffler, among {crowd}: a report tells at most ε = {epsilon(found.one_report)}"
    if found.all_reports is None:
        text += "; for several reports nothing is known"
    elif found.reports > 1:
        text += f", {found.reports:,} reports at most {epsilon(found.all_reports)}, whatever changes"
    also = found.renaming
    if also is not None and also.one_report < found.one_report:
        levels = [one for one in (also.one_report, also.all_reports) if one is not None]
        both = " and ".join(dict.fromkeys(map(epsilon, levels)))
        text += f"; {both} if the shuffler also renames hash symbols (then 1 in {also.functions:,})"
    return (
        f"{text}. This can fail with probability {delta:g}. It assumes that {assumption}; without one, the "
        "promises to a device hold as they are."
    )


# --- errors


def points(frequency: float) -> str:
    """A frequency in percentage points, for people, in three digits."""
    number = 100 * frequency
    return f"{number:.3g}" if number < 100 else ">100" if number > 100 else "100"


def interval(about: str, widest: float, half_width: float, values: int, even: float) -> str:
    """The half-widths of the intervals of an epoch's frequencies, for the widest and for an even share."""
    return (
        f"±{points(half_width)} points (95 %) for a value of {points(widest)} %, the widest{about}; "
        f"±{points(even)} for a value of 1/{values:,}"
    )


RANKED = " where frequencies fall like 1/rank"
"""Where nobody said which frequencies to expect."""


def errors(expected: Expected) -> str:
    """What an epoch's estimates are off by."""
    about = f"{expected.attribute}: " if expected.attribute else ""
    if expected.widest is None or expected.even is None or expected.least is None:
        most = f"±{expected.half_width:.4g} at most (95 %)"
        return f"{about}the mean {most}, of values up to {expected.values - 1:,}"
    some = f"frequencies from {points(expected.least)} points on are"
    seen = "no frequency is" if expected.least >= 1 else some
    width = interval(RANKED, expected.widest, expected.half_width, expected.values, expected.even)
    return f"{about}{width}; {seen} told apart from zero"


# --- reports that come late


def lateness(allowed: int, spread: int, length: int) -> str:
    """Until when a report counts, and when devices send it; all three in seconds, ``length`` of an epoch."""
    until = f"{duration(allowed)} after the end" if allowed else "the end"
    if not spread:
        when = "at once (spread=0)"
    elif spread < length:
        when = f"at a time drawn from the next {duration(spread)}, within the epoch"
    else:
        when = "at a time drawn from what is left of the epoch"
    return f"A report counts until {until} of its epoch; devices send it {when}."


def none_may_be_late(length: int) -> tuple[str, str]:
    """Where no lateness is allowed: what that costs, and what to do."""
    return (
        "allowed_lateness is 0: a report that a device makes just before the end of its epoch, or that the "
        "network holds up, is late and does not count",
        f"Write allowed_lateness: {duration(length)}, an epoch: then a report counts which a device sends "
        "when it next runs.",
    )


def late_when_next_awake(allowed: int, spread: int, length: int) -> tuple[str, str]:
    """Where a spread needs more lateness than is allowed: what that costs, and what to do."""
    return (
        f"a device that runs once in an epoch sends a report with spread={spread} when it next runs, up to "
        f"{duration(length)} after the end of its epoch: with allowed_lateness {duration(allowed)} it is "
        "late and does not count",
        f"Write allowed_lateness: {duration(length)}, or open devices that do not run all day with spread=0.",
    )


# --- in short


def in_short(promise: Promise) -> str:
    """The losses in a line, for the head of a run; never a bare ε."""
    first, loss = epsilon(promise.first_report), promise.any_loss
    if promise.reports == 1:
        return f"the only report of a device tells ε ≤ {first}"
    parts = [f"a {'first ' if promise.memoised else ''}report tells ε ≤ {first}"]
    if promise.unchanged is not None:
        parts.append(f"all about an unchanged value ε ≤ {epsilon(promise.unchanged)}")
    known = "without a bound" if loss == inf else f"ε ≤ {epsilon(loss)}"
    return ", ".join([*parts, f"{promise.reports:,} reports {known} whatever changes"])


def promise_record(promise: Promise) -> dict[str, object]:
    """What run.json says of a promise: its numbers, its sentences, and what they leave out."""
    return {
        **promise.as_record(),
        "statements": [one.as_record() for one in statements(promise)],
        "not_capped": OTHER_COLLECTIONS,
    }
