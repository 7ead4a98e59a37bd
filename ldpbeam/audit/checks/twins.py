"""Devices with equal histories: what a random generator of little entropy leaves in reports.

Of 2^b states of a generator two of n devices share one about n²/2^(b+1) times, and then send the same reports
for life. Histories are so long that honest devices never do, as far as the protocol's reports differ enough.
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
    """At least P(two honest devices that hold the first value have equal histories of so many reports).

    Of two laws that give two equal reports with probabilities c and d, one each agrees with √(c·d) at most.
    """
    alike = sum(probability * equal ** (reports / 2) for probability, equal in kinds) ** 2
    # Of several kinds the draws for life may decide.
    return float(alike * model.same_for_life) if len(kinds) == 1 else alike
