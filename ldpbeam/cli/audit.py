"""The command ``audit``: whether what a client sends gives the privacy that its collection promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.errors import LdpError, option_error

if TYPE_CHECKING:
    from ldpbeam.audit.checks.outcome import AuditOutcome


class PrivacyViolation(LdpError):  # noqa: N818 - what it is
    exit_code = 7


@click.command(cls=PrintingCommand)
@click.argument("collections", nargs=-1, type=click.Path(path_type=Path), metavar="[COLLECTION]...")
@click.option("--draws", type=click.IntRange(100), help="Reports about each of two values. Default: 100000.")
@click.option("--quick", is_flag=True, help="Fewer draws and settings: a minute on two idle cores.")
@click.option(
    "--client", metavar="COMMAND", help="Audit a client in another process; see ldpbeam docs audit."
)
def audit(collections: tuple[Path, ...], draws: int | None, quick: bool, client: str | None) -> None:
    """Draw reports from a client, and test whether it keeps what collections promise.

    Without a collection every protocol is audited.
    """
    from ldpbeam.audit.audit import FALSE_ALARM
    from ldpbeam.audit.checks.faults import unseen, warning
    from ldpbeam.audit.parallel import audit_all, tasks_for
    from ldpbeam.audit.standard_collections import QUICK_DRAWS, standard_collections
    from ldpbeam.cli.shared.collections import load

    asked = [load(path) for path in collections] or list(standard_collections(quick=quick))
    if client is not None and len(asked) > 1:
        raise option_error("a client in another process serves one collection", "Name one collection.")
    tasks = tasks_for(asked, draws or (QUICK_DRAWS if quick else 100_000), client)
    outcomes = []
    for outcome in audit_all(tasks):
        outcomes.append(outcome)
        _print(outcome)
    violations = sum(len(outcome.violations) for outcome in outcomes)
    reports = sum(outcome.reports for outcome in outcomes)
    fewest = min(task.draws for task in tasks)
    for few in sorted({task.draws for task in tasks}, reverse=True):
        say(warning(few))
    say(f"{len(outcomes)} audits, {reports:,} reports, {violations} violations; false alarm {FALSE_ALARM:g}")
    deliver(
        {
            "false_alarm": FALSE_ALARM,
            "violations": violations,
            "cannot_see": [fault.what for fault in unseen(fewest)],
            "audits": [outcome.as_record() for outcome in outcomes],
        }
    )
    if violations:
        raise _violation(outcomes)


def _print(outcome: AuditOutcome) -> None:
    from ldpbeam.audit.checks.outcome import Check

    single = [one for one in outcome.levels if one.check is Check.BOUND]
    best = max(single, key=lambda one: one.bound, default=None)
    level = "" if best is None else f", one report ε ≥ {best.bound:.3f} of {best.level:.3f}"
    verdict = "VIOLATED" if outcome.violations else "holds"
    tests = sum(one.tests for one in outcome.checks)
    say(
        f"{outcome.name}, {outcome.protocol}, {outcome.client}: {verdict} "
        f"({outcome.reports:,} reports, {tests:,} tests{level})"
    )
    for check, text in outcome.violations:
        say(f"  {check.value}: {text}")
    for text in outcome.left_out:
        say(f"  not audited: {text}")


def _violation(outcomes: list[AuditOutcome]) -> PrivacyViolation:
    first = next(outcome for outcome in outcomes if outcome.violations)
    checks = sorted({check.value for outcome in outcomes for check, _ in outcome.violations})
    return PrivacyViolation(
        "E-AUDIT-VIOLATION",
        f"a client does not keep what its collection promises: {', '.join(checks)}",
        where=f"{first.name}, {first.protocol}, {first.client}",
        remedy="Do not ship it; ldpbeam docs audit says what each check means.",
    )
