"""The sentences about errors and late reports, each written once; promise/statements.py has the others."""

from __future__ import annotations

from ldpbeam.collection.epochs import duration


def points(frequency: float) -> str:
    """A frequency in percentage points, for people, in three digits."""
    number = 100 * frequency
    return f"{number:.3g}" if number < 100 else ">100" if number > 100 else "100"


def interval(about: str, widest: float, half_width: float, values: int, even: float) -> str:
    """The half-widths of the intervals of an epoch's frequencies, for the widest and for an even share.

    Args:
        about: what is assumed about the frequencies: :data:`RANKED`, or empty.
        widest: frequency of the value with the widest interval, in [0, 1].
        half_width: of its 95 % interval, a frequency.
        values: k, how many values the domain has.
        even: half-width for a value of frequency 1/k, a frequency.
    """
    return (
        f"±{points(half_width)} points (95 %) for a value of {points(widest)} %, the widest{about}; "
        f"±{points(even)} for a value of 1/{values:,}"
    )


RANKED = " where frequencies fall like 1/rank"
"""Where nobody said which frequencies to expect."""


# --- reports that come late


def lateness(allowed: int, spread: int, length: int) -> str:
    """Until when a report counts, and when devices send it.

    Args:
        allowed: seconds after the end of an epoch in which its reports still count.
        spread: seconds from which a device draws its sending time; 0 sends at once.
        length: of an epoch, seconds.
    """
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
    """Where a spread needs more lateness than is allowed: what that costs, and what to do.

    Args:
        allowed: seconds after the end of an epoch in which its reports still count.
        spread: seconds from which a device draws its sending time; positive.
        length: of an epoch, seconds.

    Returns:
        Message and remedy of a warning.
    """
    return (
        f"a device that runs once in an epoch sends a report with spread={spread} when it next runs, up to "
        f"{duration(length)} after the end of its epoch: with allowed_lateness {duration(allowed)} it is "
        "late and does not count",
        f"Write allowed_lateness: {duration(length)}, or open devices that do not run all day with spread=0.",
    )
