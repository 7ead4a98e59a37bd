"""What the command ``plan`` reads, and what it prints and writes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ldpbeam.collection.domain import Domain
from ldpbeam.collection.epochs import parse_duration
from ldpbeam.errors import UsageError
from ldpbeam.pipelines.commands.support.console import deliver, say
from ldpbeam.planning.collection_text import Particulars, collection_text
from ldpbeam.planning.needs import Needs
from ldpbeam.planning.plan import Plan, Row, devices_needed, epochs_possible, make_plan
from ldpbeam.planning.words import COLUMNS, asked, recommendation, table

_DAY = 86400
_MOST_DISTINCT = 1 << 16


@dataclass(frozen=True)
class Asked:
    """Options of the command, each by its name; levels as in :class:`ldpbeam.planning.needs.Needs`."""

    values: int | None
    domain: Path | None
    population: str | None
    devices: int | None
    epochs: int
    change_rate: float | None
    longitudinal: float | None
    first: float | None
    cap: float | None
    lifetime: float | None
    target: float | None  # percentage points
    bits: int | None
    rows: int
    columns: bool
    output: Path | None
    row: int | None
    name: str
    epoch: str
    start: int | None
    chart: Path | None


@dataclass(frozen=True)
class _Who:
    """Who is asked about what."""

    domain: Domain
    devices: int | None
    frequencies: tuple[float, ...] | None = None
    change_rate: float | None = None


def plan_collection(given: Asked) -> None:
    """Plan, print, and write what is to be written.

    Raises:
        UsageError: the needs are incomplete or contradict each other.
        CollectionError: the file with the domain is not sound.
    """
    who = _who(given)
    devices = given.devices or who.devices
    if devices is None:
        raise _incomplete("how many devices report is not known", "Add --devices N.")
    needs = Needs(
        values=who.domain.size,
        devices=devices,
        epochs=given.epochs,
        change_rate=who.change_rate if given.change_rate is None else given.change_rate,
        longitudinal=given.longitudinal,
        first=given.first,
        cap=given.cap,
        lifetime=given.lifetime,
        target=None if given.target is None else given.target / 100,
        bits=given.bits,
        frequencies=who.frequencies,
    )
    made = make_plan(needs)
    chosen = _chosen(made, given.row)
    _print(made, given.rows, columns=given.columns)
    written: dict[str, str] = {}
    if given.output is not None:
        if chosen is None:
            raise _incomplete(
                "no setting keeps all limits, so there is no collection to write",
                "Relax a limit, or choose one of the table with --row N.",
            )
        particulars = Particulars(given.name, who.domain, _length(given.epoch), _start(given.start))
        given.output.write_text(collection_text(chosen, made.needs, particulars), "utf-8")
        written["collection"] = str(given.output)
        say(f"{chosen.setting.label} in {given.output}")
    if given.chart is not None:
        from ldpbeam.planning.chart import svg

        given.chart.write_text(svg(made), "utf-8")
        written["chart"] = str(given.chart)
        say(f"chart in {given.chart}")
    deliver(_document(made) | {"written": written})


def _chosen(made: Plan, number: int | None) -> Row | None:
    if number is None:
        return made.recommended
    if number > len(made.rows):
        raise _incomplete(
            f"--row {number} is beyond the {len(made.rows)} rows", "Use --rows to see them all."
        )
    return made.rows[number - 1]


def _print(made: Plan, rows: int, *, columns: bool) -> None:
    say(asked(made.needs))
    for line in recommendation(made):
        say(line)
    numbered = list(enumerate(made.rows, 1))
    shown = numbered[:rows]
    marked = [row for row in (made.recommended, made.weaker) if row is not None]
    shown += [pair for pair in numbered[rows:] if pair[1] in marked]
    say("")
    for line in table(shown):
        say(line)
    if len(shown) < len(numbered):
        say(f"… {len(numbered) - len(shown)} more: --rows {len(numbered)}; what columns mean: --columns")
    for name, meaning in COLUMNS[1:] if columns else ():
        say(f"  {name}: {meaning}")


def _document(made: Plan) -> dict[str, object]:
    needs = made.needs
    return {
        "schema": "ldpbeam.plan/1",
        "needs": {
            name: getattr(needs, name)
            for name in (
                *("values", "devices", "epochs", "change_rate", "longitudinal", "first", "cap", "lifetime"),
                *("target", "bits"),
            )
        },
        "level_chosen_here": made.chosen_level,
        "meets": made.meets,
        "recommended": made.recommended and made.recommended.as_record(),
        "weaker": made.weaker and made.weaker.as_record(),
        "says": list(recommendation(made)),
        "devices_needed": devices_needed(made),
        "epochs_possible": epochs_possible(made),
        "uniform_error": needs.uniform_error,
        "rows": [row.as_record() for row in made.rows],
    }


# --- who is asked


def _who(given: Asked) -> _Who:
    named = [given.values is not None, given.domain is not None]
    if given.population is not None:
        if given.domain is not None:
            raise _incomplete("--domain and --population exclude each other", "Leave one out.")
        return _of_population(given)
    if sum(named) != 1:
        raise _incomplete(
            "how many values there are is not known"
            if not any(named)
            else "--values and --domain both say it",
            "Give one of --values N, --domain FILE, --population SPEC.",
        )
    if given.values is not None:
        return _Who(Domain(given.values), None)
    assert given.domain is not None  # noqa: S101 - one of the two
    return _Who(_domain(given.domain), None)


def _domain(path: Path) -> Domain:
    if path.suffix in (".yaml", ".yml"):
        from ldpbeam.collection.file import load_collection

        collection = load_collection(path)
        if collection.domain is None:
            raise _incomplete(
                f"{path} asks for several attributes", "Plan one attribute at a time, with --values N."
            )
        return collection.domain
    try:
        labels = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _incomplete(
            f"{path} is not a readable text ({type(error).__name__})", "Check the path."
        ) from None
    return Domain(len([one for one in labels if one.strip()]), tuple(one for one in labels if one.strip()))


def _of_population(given: Asked) -> _Who:
    """Values, devices, frequencies and change rate of a population; of a file all of its devices."""
    import numpy as np

    from ldpbeam.simulators.population.specs import population
    from ldpbeam.simulators.words import RandomWords

    assert given.population is not None  # noqa: S101 - the caller's condition
    drawn = given.population.partition(":")[0] in {"syn", "zipf"}
    if drawn and given.values is None:
        raise _incomplete("a drawn population does not say how many values there are", "Add --values N.")
    try:
        people = population(
            given.population,
            domain=Domain(given.values or _MOST_DISTINCT),
            devices=given.devices if drawn else None,
            epochs=min(given.epochs, 2) if drawn or ".." not in given.population else None,
            random_words=RandomWords(1),
        )
    except ValueError as error:
        raise UsageError("E-USAGE-POPULATION", str(error).rstrip(".")) from None
    epochs = people.values()
    first = next(epochs)
    second = next(epochs, None)
    labels = tuple(label for label in people.labels or () if label)
    size = given.values or len(labels) or int(first.max()) + 1
    counts = np.bincount(first[first >= 0], minlength=size)[:size]
    both = None if second is None else (first >= 0) & (second >= 0)
    changed = None if both is None or not both.any() else float((first[both] != second[both]).mean())  # type: ignore[index]
    domain = Domain(size, labels) if len(labels) == size else Domain(size)
    return _Who(domain, people.devices, tuple((counts / counts.sum()).tolist()), changed)


# --- what is written


def _length(text: str) -> str:
    try:
        if parse_duration(text) < 1:
            raise ValueError("an epoch lasts at least 1s")
    except ValueError as error:
        raise UsageError(
            "E-USAGE-DURATION", f"--epoch: {error}", remedy="Write for example 1d or 6h."
        ) from None
    return text.strip().lower()


def _start(given: int | None) -> int:
    return given if given is not None else (int(time.time()) // _DAY + 1) * _DAY


def _incomplete(message: str, remedy: str) -> UsageError:
    return UsageError("E-USAGE-PLAN", message, remedy=remedy)
