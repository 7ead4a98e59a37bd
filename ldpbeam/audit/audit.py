"""The audit of one client for one collection, from drawing to verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbeam.audit.behaviour import across_collections, epoch_sweep, forks, manners, reopened
from ldpbeam.audit.certificate import certificate_rules
from ldpbeam.audit.clients import Client
from ldpbeam.audit.draws import Counts, Plan, Read, read_histories
from ldpbeam.audit.evidence import bounds_of, matches_of, repeated, rules_of
from ldpbeam.audit.lives import few_reports, life_manners, read_lives, silence
from ldpbeam.audit.model import Model
from ldpbeam.audit.models import model_of
from ldpbeam.audit.outcome import Check, Match, Outcome, Rule, judge
from ldpbeam.audit.support import held_values, support_counts, support_matches
from ldpbeam.collection.collection import Collection

FALSE_ALARM = 1e-6
"""Probability that an honest client is found to violate anything, over all that one call audits."""


def audit(client: Client, collection: Collection, plan: Plan, false_alarm: float = FALSE_ALARM) -> Outcome:
    """Audit a client.

    Args:
        client: of that collection.
        collection: whose promises are tested.
        plan: how much is drawn.
        false_alarm: this audit's share.

    Raises:
        NotImplementedError: the protocol's encoding has no model.
    """
    read = Read(collection)
    drawn = _histories if collection.participation is None else _lives
    found = drawn(client, collection, model_of(collection.protocol), plan, read)
    rules = [*certificate_rules(collection), *found.rules, *_bytes_rules(read), repeated(read.ids)]
    bounds = bounds_of(collection.protocol, found.model, found.counts)
    checks, levels = judge(bounds, found.matches, rules, false_alarm)
    return Outcome(
        collection.name,
        collection.protocol_label,
        client.name,
        read.reports,
        false_alarm,
        checks,
        levels,
        (*found.left_out, *_not_covered(found.model, collection)),
    )


@dataclass
class _Found:
    """What a client did.

    Attributes:
        model: of the collection's protocol.
        counts: of sequences of reports.
        matches, rules: all that they are tested by, but for the bounds.
        left_out: what was not audited, in sentences.
    """

    model: Model
    counts: Counts
    matches: list[Match]
    rules: list[Rule]
    left_out: list[str]


def _histories(client: Client, collection: Collection, model: Model, plan: Plan, read: Read) -> _Found:
    """Of devices that report in every epoch that they are asked in."""
    protocol = collection.protocol
    counts = read_histories(client, collection, model, plan.draws, read)
    seen = list(zip(model.pair, counts.responses, strict=True))
    held = held_values(protocol)
    if held:
        each = plan.draws // (2 * len(held))
        seen += support_counts(client, collection, held, each, read)
    matches = [*matches_of(model, counts), *support_matches(protocol, seen)]
    matches += epoch_sweep(client, collection, model, plan, read)
    rules = [*rules_of(counts), *manners(client, collection, model)]
    kept, lost = reopened(client, collection, model, plan.lasting, read)
    matches += kept
    rules += lost
    left_out = []
    if client.forks:
        forked, broken = forks(client, collection, model, plan, read)
        matches += forked
        rules += broken
    else:
        left_out.append("Forks: this client runs in a process of its own.")
    shared = across_collections(client, collection, model, plan, read)
    if shared is None:
        left_out.append("Several collections of one device: this client serves one.")
    else:
        matches += shared
    return _Found(model, counts, matches, rules, left_out)


def _lives(client: Client, collection: Collection, model: Model, plan: Plan, read: Read) -> _Found:
    """Of devices that report in a few of their epochs only."""
    life = collection.participation
    assert life is not None  # noqa: S101 - the caller's condition
    lives = read_lives(client, collection, model, plan.draws, read)
    seen = list(zip(model.pair, lives.counts.responses, strict=True))
    matches = [*matches_of(model, lives.counts), *support_matches(collection.protocol, seen)]
    matches += silence(lives, life)
    rules = [*rules_of(lives.counts), few_reports(lives, life), *life_manners(client, collection, model)]
    left_out = (
        "Forks, several collections of one device, and values between the ends: audit a copy of the "
        "collection without participation, whose reports are drawn the same way."
    )
    return _Found(model, lives.counts, matches, rules, [left_out])


def _bytes_rules(read: Read) -> list[Rule]:
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


def _not_covered(model: Model, collection: Collection) -> Sequence[str]:
    parts = len(collection.protocol.parts)
    audited = getattr(model, "models", (None,) * parts)
    if len(audited) < parts:
        return (f"{parts - len(audited)} of {parts} attributes, except that their reports are well formed.",)
    return ()
