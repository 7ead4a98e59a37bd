"""How a device behaves over restarts and processes: rules, and tests of chance."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ldpbeam.audit.checks.evidence import agreements, cell_probability, equal_probability
from ldpbeam.audit.checks.outcome import Check, Evidence, Match, Rule
from ldpbeam.audit.client.clients import ClientHistory
from ldpbeam.audit.client.draws import Subject, all_cells, epochs_for, patterns_of

_DEVICES = 8
"""Devices that every rule about one device is tried with."""

_CHILDREN = 4


def manners(subject: Subject) -> Evidence:
    """Asked again a device gives the same bytes, whatever value and slice it has, and goes back to none."""
    client, collection, model, *_ = subject
    again = changed = back = after = opened = opened_changed = 0
    several = collection.epochs.count > 2
    for number in range(_DEVICES):
        one, other = model.pair if number % 2 else model.pair[::-1]
        device = client.device()
        first = device.report(one, 0)
        again += device.report(one, 0) != first
        changed += device.report(other, 0, step=1) != first
        device.reopen()
        opened += device.report(one, 0) != first
        opened_changed += device.report(other, 0, step=1) != first
        if several:
            last = device.report(one, 2)
            back += sum(device.report(one, epoch) is not None for epoch in (1, 0))
            after += device.report(one, 2) != last
            device.reopen()
            back += device.report(one, 1) is not None
            opened += device.report(one, 2) != last
    cases, later = _DEVICES, _DEVICES * several
    what = "value and slice" if collection.slices else "value"
    rules = [
        Rule(Check.REPEAT, "asked again, a device gives the same bytes", again, cases),
        Rule(Check.REPEAT, f"asked again with another {what}, it gives the same bytes", changed, cases),
        Rule(Check.REOPEN, "opened again, it gives the same bytes for the epoch", opened, cases + later),
        Rule(Check.REOPEN, f"opened again, so it does with another {what}", opened_changed, cases),
        Rule(Check.ORDER, "an epoch before the last one is refused", back, 3 * later),
        Rule(Check.ORDER, "after a refusal the last epoch's bytes are the same", after, later),
    ]
    return Evidence(rules=rules)


def reopened(subject: Subject) -> Evidence:
    """Devices that are opened again after every report: their histories have the law of all others."""
    client, collection, model, plan, read = subject
    still = patterns_of(model, collection.epochs.count)[0]
    seen: Counter[tuple[int, tuple[int, ...]]] = Counter()
    complete = lost = 0
    for number in range(plan.lasting):
        device = client.device()
        places, shown = [], set()
        for value, epoch in zip(still, epochs_for(number, len(still), collection.epochs.count), strict=True):
            known = read.response(device.report(model.pair[value], epoch), epoch)
            if known is not None:
                places.append(model.place(known[0]))
                shown.add(model.for_life(known[0]))
            device.reopen()
        lost += len(shown) > 1
        if len(places) < len(still) or len({stratum for stratum, _ in places}) > 1:
            continue
        complete += 1
        seen[places[0][0], tuple(symbol for _, symbol in places)] += 1
    matches = [
        Match(
            Check.REOPEN,
            f"opened again after every report, symbols {' '.join(map(str, cell[1]))}",
            seen[cell],
            complete,
            cell_probability(model, still, cell),
        )
        for cell in all_cells(model, len(still))
    ]
    matches += [
        replace(match, check=Check.REOPEN, what=f"opened again after every report, {match.what}")
        for match in agreements(model, still, seen)
    ]
    what = "opened again, it keeps what it drew for life"
    return Evidence(matches=matches, rules=[Rule(Check.REOPEN, what, lost, plan.lasting)])


def forks(subject: Subject) -> Evidence:
    """Processes that fork with the same devices: one report of each, and noise of their own for new ones."""
    client, collection, model, plan, read = subject
    epoch = 1 if collection.epochs.count > 1 else 0
    lasting = [client.device() for _ in range(_DEVICES)]
    if epoch:
        for number, device in enumerate(lasting):
            device.report(model.pair[number % 2], 0)

    def drawn() -> Drawn:
        same = [device.report(model.pair[number % 2], epoch) for number, device in enumerate(lasting)]
        fresh = client.reports([ClientHistory([model.pair[0]], [0])] * plan.forked)
        return same, [message for (message,) in fresh]

    children = [_in_child(drawn) for _ in range(_CHILDREN)]
    children.append(drawn())
    differing = sum(
        len(set(reports)) > 1 or reports[0] is None for reports in zip(*(f[0] for f in children), strict=True)
    )
    places = [[read.response(message, 0) for message in fresh] for _, fresh in children]
    ids = [known[1] for row in places for known in row if known is not None]
    equal = pairs = 0
    for first, second in ((0, 1), (2, 3)):
        for one, other in zip(places[first], places[second], strict=True):
            if one is not None and other is not None:
                pairs += 1
                equal += model.place(one[0]) == model.place(other[0])
    p = equal_probability(model, (0,))
    matches = [Match(Check.FORK, "new devices of two forked processes send the same", equal, pairs, p)]
    rules = [
        Rule(Check.FORK, "forked processes have one report of a device for an epoch", differing, _DEVICES),
        Rule(
            Check.FORK,
            "no two devices of forked processes share a report id",
            len(ids) - len(set(ids)),
            len(ids),
        ),
    ]
    return Evidence(matches=matches, rules=rules)


Drawn = tuple[list[bytes | None], list[bytes | None]]
"""Reports of lasting devices, and of new ones."""


def _in_child(drawn: Callable[[], Drawn]) -> Drawn:
    """What a forked process finds; nothing where it dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever happens, the child must not go on with the parent's work.
        try:
            os.close(read)
            with suppress(BaseException), os.fdopen(write, "wb") as stream:
                stream.write(pickle.dumps(drawn()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    same, fresh = pickle.loads(data)  # noqa: S301 - this program wrote it
    return same, fresh
