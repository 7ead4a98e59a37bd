"""The audit of one client for one collection, from drawing to verdict."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.audit.checks.behaviour import forks, manners, reopened
from ldpbeam.audit.checks.certificate import certificate_rules
from ldpbeam.audit.checks.evidence import bounds_of, lasting, matches_of, repeated
from ldpbeam.audit.checks.held_values import MOST_HELD, ValueReports, held_values, read_held, support_matches
from ldpbeam.audit.checks.ids import coins_of
from ldpbeam.audit.checks.lives import few_reports, life_manners, read_lives, silence
from ldpbeam.audit.checks.long_lives import changing_lives, every_memo, still_lives
from ldpbeam.audit.checks.outcome import AuditOutcome, Check, Evidence, Rule, judge
from ldpbeam.audit.checks.sharing import across_collections
from ldpbeam.audit.checks.twins import equal_histories
from ldpbeam.audit.client.clients import Client
from ldpbeam.audit.client.draws import DrawPlan, HistoryCounts, ReportLog, Subject, read_histories
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.participation import Participation
from ldpbeam.protocols.history_model import Model
from ldpbeam.protocols.prefixes import Prefixes

FALSE_ALARM = 1e-6
"""Probability that an honest client is found to violate anything, over all that one call audits."""


def audit(
    client: Client, collection: Collection, plan: DrawPlan, false_alarm: float = FALSE_ALARM
) -> AuditOutcome:
    read = ReportLog(collection)
    model = model_of(collection.protocol)
    subject, life = Subject(client, collection, model, plan, read), collection.participation
    evidence, left_out = _histories(subject) if life is None else _lives(subject, life)
    evidence += Evidence(rules=[*certificate_rules(collection), *_bytes_rules(read), repeated(read.ids)])
    checks, levels = judge(evidence, false_alarm)
    return AuditOutcome(
        collection.name,
        collection.protocol_label,
        client.name,
        read.reports,
        false_alarm,
        checks,
        levels,
        (*left_out, *_not_covered(model, collection)),
    )


def _histories(subject: Subject) -> tuple[Evidence, list[str]]:
    """Of devices that report in every epoch that they are asked in, and what was not audited."""
    counts = read_histories(subject)
    values = held_values(subject.collection.protocol)
    evidence = _evidence(subject, counts, read_held(subject, values))
    evidence += still_lives(subject)
    evidence += every_memo(subject, values)
    evidence += changing_lives(subject, values)
    evidence += manners(subject)
    evidence += reopened(subject)
    left_out = []
    if subject.client.forks:
        evidence += forks(subject)
    else:
        left_out.append("Forks: this client runs in a process of its own.")
    shared = across_collections(subject)
    if shared is None:
        left_out.append("Several collections of one device: this client serves one.")
    else:
        evidence += shared
    twins = equal_histories(subject)
    if twins is None:
        left_out.append("Generators of little entropy: equal histories of two devices prove nothing here.")
    else:
        evidence += twins
    return evidence, left_out


def _lives(subject: Subject, life: Participation) -> tuple[Evidence, list[str]]:
    """Of devices that report in a few of their epochs only, and what was not audited."""
    lives = read_lives(subject, life, held_values(subject.collection.protocol))
    evidence = _evidence(subject, lives.counts, lives.rotating)
    rules = [few_reports(lives, life), *life_manners(subject, life)]
    left_out = (
        "Forks, several collections of one device, equal histories and long lives: audit a copy of the "
        "collection without participation, whose reports are drawn the same way."
    )
    return evidence + Evidence(matches=list(silence(lives, life)), rules=rules), [left_out]


def _evidence(subject: Subject, counts: HistoryCounts, held: list[ValueReports]) -> Evidence:
    protocol, model = subject.collection.protocol, subject.model
    pair = [
        ValueReports(value, seen, ids)
        for value, seen, ids in zip(model.pair, counts.responses, counts.first_ids, strict=True)
    ]
    both = [*pair, *held]
    return Evidence(
        bounds_of(protocol, model, counts),
        [
            *matches_of(model, counts),
            *support_matches(protocol, [(one.value, one.responses) for one in both]),
        ],
        rules=[lasting(counts.changed, counts.devices)],
    ) + coins_of([(one.value, one.ids) for one in both], counts.next_ids)


def _bytes_rules(read: ReportLog) -> list[Rule]:
    return [
        Rule(Check.BYTES, "a device reports when it is asked", read.refused, read.reports),
        Rule(
            Check.BYTES,
            "a report is one of the collection, as its wire format has it",
            read.malformed,
            read.reports,
        ),
        Rule(Check.BYTES, "a report is for the epoch that was asked for", read.wrong_epoch, read.reports),
        Rule(Check.LENGTH, "all reports of an epoch have one length", read.wrong_length, read.reports),
    ]


def _not_covered(model: Model, collection: Collection) -> Iterator[str]:
    parts = collection.protocol.parts
    audited = getattr(model, "models", parts)
    if len(audited) < len(parts):
        left = len(parts) - len(audited)
        yield f"{left} of {len(parts)} attributes, except that their reports are well formed."
    largest = max(part.domain_size for part in parts)
    if isinstance(collection.protocol, Prefixes):
        yield f"All texts but the {len(held_values(collection.protocol))} that devices held."
    elif largest > MOST_HELD:
        yield f"{largest - MOST_HELD:,} of {largest:,} values, of which no device held any."
