"""The audit of one client for one collection, from drawing to verdict."""

from __future__ import annotations

from collections.abc import Iterator

from ldpbeam.audit.checks.behaviour import forks, manners, reopened
from ldpbeam.audit.checks.certificate import certificate_rules
from ldpbeam.audit.checks.evidence import bounds_of, matches_of, repeated, rules_of
from ldpbeam.audit.checks.held_values import MOST_HELD, ValueReports, held_values, read_held, support_matches
from ldpbeam.audit.checks.ids import coins_of
from ldpbeam.audit.checks.lives import few_reports, life_manners, read_lives, silence
from ldpbeam.audit.checks.long_lives import changing_lives, every_memo, still_lives
from ldpbeam.audit.checks.outcome import AuditOutcome, Check, Evidence, Rule, judge
from ldpbeam.audit.checks.sharing import across_collections
from ldpbeam.audit.client.clients import Client
from ldpbeam.audit.client.draws import DrawPlan, HistoryCounts, ReportLog, read_histories
from ldpbeam.audit.law.pairs import model_of
from ldpbeam.collection.collection import Collection
from ldpbeam.protocols.history_model import Model

FALSE_ALARM = 1e-6
"""Probability that an honest client is found to violate anything, over all that one call audits."""


def audit(
    client: Client, collection: Collection, plan: DrawPlan, false_alarm: float = FALSE_ALARM
) -> AuditOutcome:
    """Audit a client.

    Args:
        client: of that collection.
        collection: whose promises are tested.
        plan: how much is drawn.
        false_alarm: this audit's share.

    Raises:
        NotImplementedError: the protocol's encoding has no model.
    """
    read = ReportLog(collection)
    model = model_of(collection.protocol)
    drawn = _histories if collection.participation is None else _lives
    evidence, left_out = drawn(client, collection, model, plan, read)
    rules = [*certificate_rules(collection), *evidence.rules, *_bytes_rules(read), repeated(read.ids)]
    checks, levels = judge(
        evidence.bounds, evidence.matches, rules, false_alarm, evidence.sums, evidence.coins
    )
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


def _histories(
    client: Client, collection: Collection, model: Model, plan: DrawPlan, read: ReportLog
) -> tuple[Evidence, list[str]]:
    """Of devices that report in every epoch that they are asked in, and what was not audited."""
    counts = read_histories(client, collection, model, plan.draws, read)
    values = held_values(collection.protocol)
    held = read_held(client, collection, values, plan.held_each(len(values)), read)
    evidence = _evidence(collection, model, counts, held)
    evidence += still_lives(client, collection, model, plan, read)
    evidence += every_memo(client, collection, plan, values, read)
    evidence += changing_lives(client, collection, model, plan, values, read)
    matches, rules = reopened(client, collection, model, plan.lasting, read)
    evidence += Evidence(matches=matches, rules=[*manners(client, collection, model), *rules])
    left_out = []
    if client.forks:
        forked, broken = forks(client, collection, model, plan, read)
        evidence += Evidence(matches=forked, rules=broken)
    else:
        left_out.append("Forks: this client runs in a process of its own.")
    shared = across_collections(client, collection, model, plan, read)
    if shared is None:
        left_out.append("Several collections of one device: this client serves one.")
    else:
        evidence += Evidence(matches=shared)
    return evidence, left_out


def _lives(
    client: Client, collection: Collection, model: Model, plan: DrawPlan, read: ReportLog
) -> tuple[Evidence, list[str]]:
    """Of devices that report in a few of their epochs only, and what was not audited."""
    life = collection.participation
    assert life is not None  # noqa: S101 - the caller's condition
    lives = read_lives(client, collection, model, plan.draws, held_values(collection.protocol), read)
    evidence = _evidence(collection, model, lives.counts, lives.rotating)
    rules = [few_reports(lives, life), *life_manners(client, collection, model)]
    left_out = (
        "Forks, several collections of one device, and long lives: audit a copy of the collection without "
        "participation, whose reports are drawn the same way."
    )
    return evidence + Evidence(matches=list(silence(lives, life)), rules=rules), [left_out]


def _evidence(
    collection: Collection, model: Model, counts: HistoryCounts, held: list[ValueReports]
) -> Evidence:
    """Of histories about the pair, and of single reports about each value."""
    protocol = collection.protocol
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
        rules=rules_of(counts),
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
    if largest > MOST_HELD:
        yield f"{largest - MOST_HELD:,} of {largest:,} values, of which no device held any."
