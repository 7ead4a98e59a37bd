"""Devices with equal histories: what a random generator of little entropy leaves in reports.

Let a generator have 2^b states. Among n devices about n²/2^(b+1) pairs start in the same state, and send the
same reports for life. The audit makes histories so long that two honest devices practically never send equal
ones. Where the protocol's reports vary too little, there is no such length.
"""

from __future__ import annotations

from ldpbeam.audit.checks.outcome import Check, Evidence, Rule
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import Subject
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.law import Kinds
from ldpbeam.text import plural

_WRONG = 1e-10
"""P(any two honest devices have equal histories), at most."""

_LONGEST = 100
_BATCH = 256


def equal_histories(subject: Subject) -> Evidence | None:
    """New devices that hold one value; None where long histories of honest devices are often equal."""
    client, collection, model, plan, read = subject
    kinds = collection.protocol.law.equal_responses(model.pair[0])
    if kinds is None:
        return None
    for reports in range(1, min(_LONGEST, collection.epochs.count) + 1):
        devices = min(plan.draws // 4, 4 * plan.draws // reports)
        wrong = devices * (devices - 1) / 2 * chance(kinds, model, reports)
        if wrong <= _WRONG:
            break
    else:
        return None
    seen, compared = set(), 0
    history = ClientHistory([model.pair[0]] * reports, range(reports))
    for start in range(0, devices, _BATCH):
        for messages in client.reports([history] * min(_BATCH, devices - start)):
            known = tuple(read.response(message, epoch) for epoch, message in enumerate(messages))
            responses = tuple(one[0] for one in known if one is not None)
            if len(responses) == reports:
                compared += 1
                seen.add(responses)
    what = f"no two devices have equal histories of {plural(reports, 'report')}"
    return Evidence(rules=[Rule(Check.DEVICES, what, compared - len(seen), compared, wrong)])


def chance(kinds: Kinds, model: Model, reports: int) -> float:
    """An upper bound on P(two honest devices with the first value have equal histories of so many reports).

    If two reports of one law are equal with probability c, and two of another law with probability d, then
    one report of each law are equal with probability √(c·d) at most.
    """
    alike = sum(probability * equal ** (reports / 2) for probability, equal in kinds) ** 2
    # With several kinds the draws for life may decide the kind: then they are no factor of their own.
    return float(alike * model.same_for_life) if len(kinds) == 1 else alike
