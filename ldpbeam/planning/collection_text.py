"""The collection file of a setting, as a person would write it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import duration, instant, parse_duration
from ldpbeam.collection.slices import NO_SLICES, Slices
from ldpbeam.planning.needs import Needs, OrderedNeeds
from ldpbeam.planning.plan import Row, least_reports
from ldpbeam.protocols.estimator import Result
from ldpbeam.protocols.parameters import PARAMETER_KEYS

_WHY = {
    Result.FREQUENCIES: "Of fewer reports the estimates would be further from the truth than 1/k for every "
    "value.",
    Result.MEAN: "Of fewer reports the interval could be wider than the whole range.",
    Result.DISTRIBUTION: "Of fewer reports the interval would be wider than the whole range.",
}
"""Why a collection needs so many reports."""


@dataclass(frozen=True)
class Particulars:
    """What a plan does not decide."""

    name: str
    domain: Domain
    epoch: str
    start: int
    slices: Slices = NO_SLICES


def collection_text(row: Row, needs: Needs, particulars: Particulars) -> str:
    """YAML that :func:`ldpbeam.collection.file.parse_collection` reads, with the row's protocol in it."""
    setting = row.setting
    atoms = particulars.domain.atoms if setting.parameters.hash_family == "interval" else ()
    lines = [
        f"# {setting.label}: planned for {needs.devices:,} devices and {needs.epochs:,} epochs.",
        f"name: {particulars.name}",
        "version: 1",
        f"domain: {_domain(particulars.domain, needs.RESULT is Result.MEAN, atoms)}",
        f"protocol: {setting.name}",
    ]
    resolved = setting.protocol.resolved_parameters()
    for name in PARAMETER_KEYS:
        if name in setting.protocol.PARAMETERS or name in {*setting.protocol.OPTIONAL} - {"p2", "q2"}:
            value = getattr(setting.parameters, name)
            value = resolved.get(name) if value is None else value
            if value is None:
                continue
            lines.append(f"{name}: {getattr(value, 'value', value)}")
    origin = instant(particulars.start)
    lines.append(f"epoch: {{length: {particulars.epoch}, origin: {origin}, count: {setting.epochs}}}")
    if setting.participates:
        lines.append(f"participation: {{reports: {setting.reports}, of: {setting.epochs}}}")
    if particulars.slices:
        lines.append(f"slices: {json.dumps(particulars.slices.as_record())}")
    late = max(86400, parse_duration(particulars.epoch))
    lines += [
        "# Devices send a report at once (spread=0), and again when they next run where that failed.",
        f"allowed_lateness: {duration(late)}",
        f"# {_WHY[Result.DISTRIBUTION if isinstance(needs, OrderedNeeds) else needs.RESULT]}",
        f"min_reports: {least_reports(row, needs)}",
    ]
    return "\n".join(lines) + "\n"


def _domain(domain: Domain, mean: bool, atoms: tuple[int, ...]) -> str:
    if domain.whole and mean:
        return f"{{range: {{max: {domain.size - 1}}}}}"
    keys = [f"size: {domain.size}"]
    if domain.maximum is not None:
        end = int(domain.maximum) if domain.maximum.is_integer() else domain.maximum
        keys = [f"range: {{max: {end}, buckets: {domain.size}}}"]
    elif domain.labels is not None:
        # A JSON string is a YAML one; keys such as yes and 1.0 stay texts.
        labels = ", ".join(json.dumps(label, ensure_ascii=True) for label in domain.labels)
        keys = [f"labels: [{labels}]"]
        if domain.other is not None:
            keys.append(f"other: {json.dumps(domain.labels[domain.other])}")
    if domain.ordered:
        keys.append("ordered: true")
    if atoms:
        keys.append(f"atoms: [{', '.join(_atom(domain, value) for value in atoms)}]")
    return f"{{{', '.join(keys)}}}"


def _atom(domain: Domain, value: int) -> str:
    """As a collection file names it: a label, or a number in the units of the domain."""
    if domain.labels is not None:
        return json.dumps(domain.labels[value])
    return str(value) if domain.maximum is None or domain.whole else domain.edge(value)
