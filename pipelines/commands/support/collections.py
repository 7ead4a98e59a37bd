"""Collections of a command: read from their files, with warnings, and introduced in a line."""

from __future__ import annotations

from math import inf
from pathlib import Path

import click

from ldpbeam.collection.advice import warnings_about
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection
from ldpbeam.privacy.lifetime import lifetime_loss
from ldpbeam.text import clean


def load(path: Path) -> Collection:
    """A collection, with a warning about keys that its protocol does not take."""
    collection = load_collection(path)
    for key in collection.ignored:
        text = (
            f"ldpbeam: {key} has no effect on {collection.protocol_label} in {path}. Remove it, or choose a "
            "protocol that takes it. [W-COLLECTION-IGNORED]"
        )
        click.echo(clean(text), err=True)
    for warning in warnings_about(collection):
        click.echo(clean(f"ldpbeam: {warning.in_file(str(path))}"), err=True)
    return collection


def introduction(collection: Collection) -> str:
    """One line on what is collected; never a bare ε."""
    guarantee = collection.guarantee
    levels = f"first report ε ≤ {guarantee.first_report:.4g}"
    losses = collection.protocol.losses
    two = None if losses is None else losses.any_changes(2)
    if two is not None:
        levels += ", two reports no bound" if two == inf else f", two reports ε ≤ {two:.4g}"
    if guarantee.per_memoised_input is not None:
        levels += f", per memoised input ε ≤ {guarantee.per_memoised_input:.4g}"
    loss = lifetime_loss(guarantee, losses)
    if guarantee.reports is not None:
        known = "no bound" if loss is None or loss == inf else f"ε ≤ {loss:.4g} for any changes of its value"
        which = "the only report" if guarantee.reports == 1 else f"all {guarantee.reports} reports"
        levels += f", {which} of a device's life {known}"
    values = " + ".join(str(domain.size) for _, domain in collection.histograms)
    return (
        f"{collection.name} version {collection.version}: {collection.protocol_label}, "
        f"{values} values, {levels}"
    )
