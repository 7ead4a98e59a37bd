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
from ldpbeam.privacy.counters import CountersGuarantee
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
"""A promise says how often the best guess of a device's value is right, from this chance on."""


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


def bits(number: int) -> str:
    """So many bits, for people."""
    return "1 bit" if number == 1 else f"{number:,} bits"


def statements(promise: Promise) -> tuple[Statement, ...]:
    """All that is promised, in the order in which a reader needs it."""
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
    found = promise.protocol.guarantee
    if not isinstance(found, CountersGuarantee) or epsilon(found.first_report) == epsilon(found.unbounded):
        return None
    return found


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
    held = "it held" if promise.inputs is Inputs.VALUES else "its values had"
    text = (
        f"{_these(promise)} tell at most ε = {loss} about which {noun}s{of} {held}, to somebody who knows "
        f"when each {noun} changed and came back."
    )
    if promise.inputs is not Inputs.VALUES:
        text += (
            f" That is no limit for what they tell about its values: values that change at the same epochs "
            f"can have {noun}s that change at different epochs."
        )
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
    text = f"The best guess of a device's value from one report is right in {_in_100(guess.from_one)} cases"
    if promise.reports > 1:
        text += f", from {promise.reports:,} reports in {_in_100(guess.from_all)} if the value stays the same"
    return Statement("best_guess", "Best guess of a value", guess.from_all, f"{text} ({even}).")


def _in_100(probability: float) -> str:
    """A probability in hundredths: one digit after the point, never 100 where it is less."""
    hundredths = round(100 * probability, 1)
    return "more than 99.9 of 100" if hundredths == 100 and probability < 1 else f"{hundredths:g} of 100"


def _these(promise: Promise) -> str:
    return f"{'All' if promise.of is not None else f'{promise.reports:,}'} reports of a device"


# --- a shuffler


def behind_shuffler(found: Shuffled | None, assumption: str, delta: float) -> str:
    """What a server learns that sees the reports of an epoch only as a set."""
    if found is None:
        return (
            "Behind a shuffler: nothing is known for this collection with so many devices; the promises to "
            "a device hold as they are."
        )
    crowd = f"{found.devices:,} honest devices in each epoch"
    if found.functions > 1:
        crowd += f", of which about 1 in {found.functions:,} has the same hash function"
    text = f"Behind a shuffler, among {crowd}: a report tells at most ε = {epsilon(found.one_report)}"
    if found.reports > 1:
        text += " to a server that knows the reports of all other epochs"
    if found.all_reports is None:
        text += "; for several reports nothing is known"
    elif found.reports > 1:
        text += f"; {found.reports:,} reports tell at most ε = {epsilon(found.all_reports)}, whatever changes"
    also = found.renaming
    if also is not None and also.one_report < found.one_report:
        levels = [one for one in (also.one_report, also.all_reports) if one is not None]
        both = " and ".join(f"ε = {one}" for one in dict.fromkeys(map(epsilon, levels)))
        text += (
            f"; at most {both} if the shuffler also renames hash symbols, since about 1 in "
            f"{also.functions:,} of the devices is then alike"
        )
    return (
        f"{text}. This can fail with probability {delta:g}. It assumes that {assumption}; without such a "
        "shuffler the promises to a device hold as they are."
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
