"""The audit of one client for one collection, from drawing to verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ldpbeam.audit.behaviour import across_collections, epoch_sweep, forks, manners, reopened
from ldpbeam.audit.certificate import certificate_rules
from ldpbeam.audit.clients import Client
from ldpbeam.audit.draws import Plan, Read, read_histories
from ldpbeam.audit.evidence import bounds_of, matches_of, repeated, rules_of
from ldpbeam.audit.model import Model
from ldpbeam.audit.models import model_of
from ldpbeam.audit.outcome import Check, Outcome, Rule, judge
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
    protocol, model = collection.protocol, model_of(collection.protocol)
    read = Read(collection)
    counts = read_histories(client, collection, model, plan.draws, read)
    seen = list(zip(model.pair, counts.responses, strict=True))
    held = held_values(protocol)
    if held:
        each = plan.draws // (2 * len(held))
        seen += support_counts(client, collection, held, each, read)
    matches = [*matches_of(model, counts), *support_matches(protocol, seen)]
    matches += epoch_sweep(client, collection, model, plan, read)
    rules = [*certificate_rules(collection), *rules_of(counts), *manners(client, collection, model)]
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
    rules += [*_bytes_rules(read), repeated(read.ids)]
    checks, levels = judge(bounds_of(protocol, model, counts), matches, rules, false_alarm)
    return Outcome(
        collection.name,
        collection.protocol_label,
        client.name,
        read.reports,
        false_alarm,
        checks,
        levels,
        (*left_out, *_not_covered(model, collection)),
    )


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
