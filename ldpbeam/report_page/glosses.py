"""What the words on the page mean: no reader is expected to know the field, nor the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from ldpbeam.consistency import NOT_ADDED_UP
from ldpbeam.errors import Reason
from ldpbeam.report_page.text import count

Gloss = tuple[str, str]

_ALWAYS: tuple[Gloss, ...] = (
    ("report", "what one device sends for one epoch: its value, randomised on the device"),
    ("epoch", "one collection period, numbered from 0; each device reports once in it; times are UTC"),
    ("collection", "what devices and server agree on: values, protocol, levels of ε, epochs"),
    ("digest", "the fingerprint of a collection, carried by every report: another version has another one"),
    ("support", "for a value, how many reports speak for it; chance makes others' reports do so too"),
    (
        "raw, estimate",
        "the frequency computed from the support without bias: right on average, so it may be negative or "
        "above 100 %",
    ),
    (
        "consistent",
        "the estimates repaired afterwards, for example so that none is negative. " + NOT_ADDED_UP,
    ),
    (
        "±, 95 % interval",
        "half the width of an interval that holds the truth in 95 of 100 cases, for one value and epoch "
        "looked at alone. Intervals end at 0 and 1, so that the estimate need not lie in their middle: the "
        "columns low and high have the ends",
    ),
    (
        "standard error",
        "the typical size of an error that chance makes; where counts are large a 95 % interval reaches "
        "about 1.96 of them to either side, unless it ends at 0 or 1 before",
    ),
    ("mean squared error", "the mean of squared errors over all values; its root is a typical error"),
    (
        "false-discovery rate",
        "of the values called different, the share that is expected to be called so by chance alone",
    ),
    ("provisional", "the epoch was not over when this was published: its numbers will change"),
    (
        "withheld",
        "no estimates were published, because too few reports arrived or too many records were rejected",
    ),
    ("late", "arrived after its epoch had closed; accounted for, not counted"),
    ("duplicate", "a report sent again, with the same report id and content; counted once"),
    ("rejected", "a record that is no valid report of a collection of this run"),
    ("pending", "read, and not yet in a published result"),
    ("ε", "a limit for what reports can tell about a value, see Privacy"),
    ("memoised", "randomised once for each input, kept on the device for life and used for every report"),
    ("ε∞, ε₁", "the limit for all reports about one memoised input, and for a device's first report"),
)


def glosses(sizes: Iterable[int], reasons: Iterable[str]) -> list[Gloss]:
    """The words of a page: of collections with so many values, and records rejected for these reasons."""
    known = sorted({size for size in sizes if size > 1})
    k = ", ".join(count(size) for size in known[:8])
    words = [("k", f"how many values the domain has{f', here {k}' if k else ''}")]
    words.append(
        ("1/k", "the frequency of every value if all were equally common: the answer without any report")
    )
    refused = {reason.value: reason.explanation for reason in Reason}
    words += [(reason, refused[reason]) for reason in sorted(set(reasons)) if reason in refused]
    return [*_ALWAYS, *words]
