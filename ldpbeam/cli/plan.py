"""The command ``plan``: which protocol and which levels fit a need, with the errors that they would have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import (
    START,
    TextOption,
    drawn_anew_option,
    epoch_option,
    next_midnight,
    slice_shares_option,
)
from ldpbeam.errors import UsageError, option_error

if TYPE_CHECKING:
    from ldpbeam.collection.domain import Domain
    from ldpbeam.collection.slice_shares import SliceShares
    from ldpbeam.over_time.covariance import DrawnAnew
    from ldpbeam.planning.needs import Needs, Ordered
    from ldpbeam.planning.plan import Plan, Row
    from ldpbeam.planning.slice_errors import SlicePlan


def _end_of_range(text: str) -> int:
    """The end of the range of a counter, 86400 or 0..86400."""
    begin, dots, end = text.partition("..")
    if dots and begin.strip() != "0":
        raise ValueError(f"{text!r}: a counter counts from 0; subtract where it begins")
    try:
        maximum = int((end if dots else begin).replace("_", ""))
    except ValueError:
        raise ValueError(f"{text!r} is no range of whole numbers such as 0..86400") from None
    if maximum < 1:
        raise ValueError(f"{text!r}: the range ends at 1 or above")
    return maximum


def _strings(text: str) -> tuple[int, str]:
    """The longest length of strings and the name of their alphabet, 16:lower."""
    from ldpbeam.hashing.strings import ALPHABETS

    length, colon, alphabet = text.partition(":")
    if not colon or not length.isdecimal():
        raise ValueError(f"{text!r} is no length with an alphabet, such as 16:lower")
    if alphabet not in ALPHABETS:
        raise ValueError(f"{alphabet!r} is no alphabet; there are {', '.join(ALPHABETS)}")
    return int(length), alphabet


def _error(text: str) -> tuple[float, bool]:
    """The number of an error, 0.5 or 0.5%, and whether it was written in per cent."""
    number = text.strip()
    try:
        return float(number.removesuffix("%")), number.endswith("%")
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


_ERROR = TextOption("error", _error)


@click.command(cls=PrintingCommand)
@click.option("--values", type=click.IntRange(2), metavar="N", help="How many values there are, k.")
@click.option(
    "--mean",
    "maximum",
    type=TextOption("range", _end_of_range),
    metavar="MAX",
    help="Ask for the mean of a counter instead: its range as 86400 or 0..86400.",
)
@click.option(
    "--domain",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The values: a collection (.yaml; of a mean it asks for a mean), or a text with a label per line.",
)
@click.option(
    "--strings",
    type=TextOption("strings", _strings),
    metavar="LENGTH:SYMBOLS",
    help="The values are strings that nobody lists: the longest length, and digits, lower, lower_digits, "
    "hostname or printable.",
)
@click.option(
    "--ordered",
    is_flag=True,
    help="The values are in an order, and their distribution is asked for: cumulative shares, with "
    "--target-quantile-error a quantile, with --target-mean-error the mean.",
)
@click.option(
    "--population",
    metavar="SPEC",
    help="Who is asked, as simulate takes it: csv:FILE:COLUMN …; with --values or --mean also zipf:1.1, syn.",
)
@click.option(
    "--devices",
    type=click.IntRange(1),
    metavar="N",
    help="Devices that are there in an epoch. One that is there in one epoch of seven counts as a seventh.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="How many are planned. Default: those of a population whose file has several, else 365.",
)
@drawn_anew_option
@click.option(
    "--epsilon-longitudinal",
    "longitudinal",
    type=float,
    help="ε∞: all reports about one memoised input; where nothing is memoised, all reports.",
)
@click.option("--epsilon-first", "first", type=float, help="ε1: a first report. Default: half of ε∞.")
@click.option(
    "--cap",
    type=float,
    help="The most that all reports of a device may tell, an ε; --cap-of says about what.",
)
@click.option(
    "--cap-of",
    type=click.Choice(["changes", "inputs"]),
    default="changes",
    show_default=True,
    help="changes: whatever its values were and whenever they changed. inputs: which inputs it memoised "
    "(values, hash symbols, buckets or rounding points), to somebody who knows when each changed and came "
    "back.",
)
@click.option(
    "--target-error",
    "target",
    type=_ERROR,
    metavar="ERROR",
    help="Half-width of the 95 % interval of an epoch: percentage points; of a mean units of the counter, "
    "or per cent of its range where it ends in %.",
)
@click.option(
    "--target-quantile-error",
    "target_quantile",
    type=_ERROR,
    metavar="ERROR",
    help="Half-width of the 95 % interval of a quantile of values in an order: units of the values, or per "
    "cent of their range where it ends in %.",
)
@click.option(
    "--target-mean-error",
    "target_mean",
    type=_ERROR,
    metavar="ERROR",
    help="The same of the mean of values in an order.",
)
@slice_shares_option("Also plan for slices, of these shares of the devices:")
@click.option(
    "--target-difference",
    type=_ERROR,
    metavar="DIFFERENCE",
    help="With --slice-shares: say how many devices it takes to find this difference between the smallest "
    "and the largest slice, in the unit of the target error.",
)
@click.option("--bits", type=click.IntRange(1), help="The most bits that a report may have.")
@click.option("--rows", type=click.IntRange(1), default=12, show_default=True, help="Rows of the table.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a collection (.yaml).")
@click.option("--row", type=click.IntRange(1), metavar="N", help="Which row --output writes; else the best.")
@click.option("--name", default="planned", show_default=True, help="Name of the written collection.")
@epoch_option("Length of its epochs.")
@click.option(
    "--start",
    type=START,
    help="Start of its first epoch; a date is midnight UTC. Default: the next one.",
)
def plan(**asked: Any) -> None:
    """Find protocol and levels for a need: errors, losses, bits and a recommendation, before any device."""
    given = PlanOptions(**asked)
    if given.strings is not None:
        _plan_strings(given, *given.strings)
        return
    from ldpbeam.collection.epochs import duration
    from ldpbeam.collection.file import parse_collection
    from ldpbeam.collection.slices import Slices
    from ldpbeam.planning.collection_text import Particulars, collection_text
    from ldpbeam.planning.needs import OrderedNeeds
    from ldpbeam.planning.plan import make_plan

    who = _who(given)
    given = replace(given, ordered=given.ordered or who.ordered)
    if given.ordered and not who.domain.has_order:
        who = replace(who, domain=replace(who.domain, ordered=True))
    devices = given.devices or who.devices
    if devices is None:
        raise option_error("how many devices report is not known", "Add --devices N.")
    needs = _needs(given, who, devices)
    made = make_plan(needs)
    chosen = _chosen(made, given.row)
    if isinstance(needs, OrderedNeeds):
        who = _with_atoms(who)
    elif who.domain.has_order and not who.mean:
        say("The values are in an order. For quantiles, or shares up to a value, plan with --ordered.")
    _print(made, given.rows)
    slices = _slices(given, who, made.needs, chosen)
    if slices is not None:
        say("", *slices.sentences())
    written: dict[str, str] = {}
    if given.output is not None:
        if chosen is None:
            raise option_error(
                "no setting keeps all limits, so there is no collection to write",
                "Relax a limit, or choose one of the table with --row N.",
            )
        start = next_midnight() if given.start is None else given.start
        labels = Slices.of({one.name: one.labels for one in given.slice_shares if one.labels})
        particulars = Particulars(given.name, who.domain, duration(given.epoch), start, labels)
        text = collection_text(chosen, made.needs, particulars)
        parse_collection(text, str(given.output))  # names and labels can be wrong
        given.output.write_text(text, "utf-8")
        written["collection"] = str(given.output)
        say(f"{chosen.setting.label} in {given.output}")
    document = _document(made) | {"slices": None if slices is None else slices.as_record()}
    deliver(document | {"written": written})


# --- strings

_OF_STRINGS = {"strings", "devices", "epochs", "longitudinal", "first", "output", "name", "epoch", "start"}


def _plan_strings(given: PlanOptions, max_length: int, alphabet: str) -> None:
    from ldpbeam.planning.needs import USUAL_EPOCHS
    from ldpbeam.planning.string_plan import StringNeeds, StringPlan

    context = click.get_current_context()
    for option in context.command.params:
        name = str(option.name)
        said = name in context.params and context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if said and name not in _OF_STRINGS:
            raise option_error(f"{option.opts[0]} has no meaning with --strings", "Leave it out.")
    if given.devices is None:
        raise option_error("how many devices report is not known", "Add --devices N.")
    epochs = given.epochs or USUAL_EPOCHS
    needs = StringNeeds(max_length, alphabet, given.devices, epochs, given.longitudinal, given.first)
    start = next_midnight() if given.start is None else given.start
    made = StringPlan.of(needs, given.name, given.epoch, start)
    say(*made.lines())
    written: dict[str, str] = {}
    if given.output is not None:
        given.output.write_text(made.text, "utf-8")
        written["collection"] = str(given.output)
        say(f"The collection is in {given.output}")
    deliver(made.as_record() | {"written": written})


# --- from needs to a plan

_MOST_DISTINCT = 1 << 16
_FREQUENT, _FAR_ABOVE = 0.01, 4
"""From this share on a value is an atom, if it has so many times the mean share of its six neighbours."""


@dataclass(frozen=True)
class PlanOptions:
    """Options of the command, each by its name; levels as in :class:`ldpbeam.planning.needs.Needs`."""

    values: int | None
    maximum: int | None  # of a counter whose mean is asked for
    domain: Path | None
    strings: tuple[int, str] | None  # the longest length, and the name of an alphabet
    ordered: bool
    population: str | None
    devices: int | None
    epochs: int | None
    drawn_anew: DrawnAnew | None
    longitudinal: float | None
    first: float | None
    cap: float | None
    cap_of: str  # "changes" or "inputs"
    target: tuple[float, bool] | None  # a number, and whether it ended in %
    target_quantile: tuple[float, bool] | None
    target_mean: tuple[float, bool] | None
    slice_shares: tuple[SliceShares, ...]
    target_difference: tuple[float, bool] | None
    bits: int | None
    rows: int
    output: Path | None
    row: int | None
    name: str
    epoch: int  # seconds
    start: int | None


@dataclass(frozen=True)
class _Who:
    """Who is asked about what: the mean of the values, their distribution (``ordered``), or single ones."""

    domain: Domain
    mean: bool = False
    ordered: bool = False
    devices: int | None = None
    epochs: int | None = None
    frequencies: tuple[float, ...] | None = None
    drawn_anew: DrawnAnew | None = None


def _needs(given: PlanOptions, who: _Who, devices: int) -> Needs:
    from ldpbeam.planning.needs import USUAL_EPOCHS, FrequencyNeeds, MeanNeeds, OrderedNeeds

    rate = who.drawn_anew if given.drawn_anew is None else given.drawn_anew
    inputs_cap = given.cap if given.cap_of == "inputs" else None
    lifetime = given.cap if given.cap_of == "changes" else None
    limits = (rate, given.longitudinal, given.first, inputs_cap, lifetime)
    asked_for = (who.domain.size, devices, given.epochs or who.epochs or USUAL_EPOCHS, *limits)
    ordered = _ordered(given, who)
    if ordered is not None:
        return OrderedNeeds(
            *asked_for, _target(*ordered, who), given.bits, ordered[0], _length_of(who.domain)
        )
    target = _target(None, given.target, who)
    if who.mean:
        return MeanNeeds(*asked_for, target, given.bits)
    return FrequencyNeeds(*asked_for, target, given.bits, who.frequencies)


def _ordered(given: PlanOptions, who: _Who) -> tuple[Ordered, tuple[float, bool] | None] | None:
    """What is asked of values in an order, with its target; None for single values or a mean."""
    from ldpbeam.planning.needs import Ordered

    targets = {
        "--target-error": (Ordered.SHARE, given.target),
        "--target-quantile-error": (Ordered.QUANTILE, given.target_quantile),
        "--target-mean-error": (Ordered.MEAN, given.target_mean),
    }
    named = [option for option, (_, target) in targets.items() if target is not None]
    if len(named) > 1:
        raise option_error(f"{' and '.join(named)} ask for different things", "Plan for one at a time.")
    of_order = bool(named) and named[0] != "--target-error"
    if not given.ordered and not of_order:
        return None
    option = named[0] if of_order else "--ordered"
    if who.mean:
        raise option_error(
            f"{option} is for the distribution of values, and a collection of a mean is planned",
            "Give --values N or --domain FILE in the place of --mean, or leave the option out.",
        )
    if not given.ordered and not who.domain.has_order:
        raise option_error(
            f"{option} needs values in an order, and nothing says that these are",
            "Add --ordered, or write ordered: true into the domain of the file.",
        )
    asked, target = targets[named[0]] if named else (Ordered.SHARE, None)
    if asked is not Ordered.SHARE and who.domain.labels is not None and not (target or (0, False))[1]:
        raise option_error(
            f"the values are labels, which have no unit that {option} could be in",
            f"Write the error in per cent of their number, as {option} 2%.",
        )
    if asked is Ordered.MEAN and who.domain.labels is not None:
        raise option_error(
            "labels are names, also where they look like numbers, so they have no mean",
            "Plan for --target-quantile-error in per cent, or for a range of numbers.",
        )
    return asked, target


def _length_of(domain: Domain) -> float:
    return float(domain.size) if domain.maximum is None or domain.whole else domain.maximum


def _target(
    asked: Ordered | None, target: tuple[float, bool] | None, who: _Who, option: str = "--target-error"
) -> float | None:
    """What an option wants, in the unit of the needs: a share, or units of the values."""
    from ldpbeam.planning.needs import Ordered

    if target is None:
        return None
    number, percent = target
    if asked is Ordered.SHARE or (asked is None and not who.mean):
        if percent:
            raise option_error(
                f"{option} of frequencies is in percentage points, and per cent of a frequency is not known "
                "before it is",
                f"Write {option} {number:g}.",
            )
        return number / 100
    length = float(who.domain.size - 1) if who.mean else _length_of(who.domain)
    return number / 100 * length if percent else number


def _chosen(made: Plan, number: int | None) -> Row | None:
    if number is None:
        return made.recommended
    if number > len(made.rows):
        raise option_error(
            f"--row {number} is beyond the {len(made.rows)} rows", "Use --rows to see them all."
        )
    return made.rows[number - 1]


def _slices(given: PlanOptions, who: _Who, needs: Needs, row: Row | None) -> SlicePlan | None:
    from ldpbeam.planning.needs import OrderedNeeds
    from ldpbeam.planning.quantity import quantity
    from ldpbeam.planning.slice_errors import SlicePlan

    asked = needs.asked if isinstance(needs, OrderedNeeds) else None
    wanted = _target(asked, given.target_difference, who, "--target-difference")
    if wanted is not None and not given.slice_shares:
        raise option_error("--target-difference is between slices", "Add --slice-shares.")
    if wanted is not None and not 0 < wanted < needs.whole:
        most = quantity(needs).error(needs.whole)
        raise option_error(f"--target-difference must lie between 0 and {most}", "Correct it.")
    return SlicePlan.of(row, needs, given.slice_shares, wanted) if row and given.slice_shares else None


def _print(made: Plan, rows: int) -> None:
    from ldpbeam.planning.sentences import asked, recommendation
    from ldpbeam.planning.table import table

    say(asked(made.needs), *recommendation(made))
    numbered = list(enumerate(made.rows, 1))
    shown = numbered[:rows]
    marked = [row for row in (made.recommended, made.weaker) if row is not None]
    shown += [pair for pair in numbered[rows:] if pair[1] in marked]
    say("", *table(shown, made.needs))
    if len(shown) < len(numbered):
        say(f"… {len(numbered) - len(shown)} more: --rows {len(numbered)}; columns: ldpbeam docs planning")


_LIMITS = (
    *("devices", "epochs", "drawn_anew", "longitudinal", "first", "inputs_cap", "lifetime", "target"),
    "bits",
)


def _document(made: Plan) -> dict[str, object]:
    from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds, OrderedNeeds
    from ldpbeam.planning.plan import devices_needed
    from ldpbeam.planning.sentences import recommendation

    needs = made.needs
    about = {"maximum": needs.maximum} if isinstance(needs, MeanNeeds) else {"values": needs.values}
    known = {"uniform_error": needs.uniform_error} if isinstance(needs, FrequencyNeeds) else {}
    return {
        "schema": "ldpbeam.plan/1",
        **({"result": needs.RESULT.value} if isinstance(needs, MeanNeeds) else {}),
        **({"asked": needs.asked.value, "length": needs.length} if isinstance(needs, OrderedNeeds) else {}),
        "needs": about
        | {name: getattr(needs, name) for name in _LIMITS}
        | {"drawn_anew": needs.drawn_anew and [needs.drawn_anew.least, needs.drawn_anew.most]},
        "level_chosen_here": made.chosen_level,
        "meets": made.meets,
        "recommended": made.recommended and made.recommended.as_record(),
        "weaker": made.weaker and made.weaker.as_record(),
        "says": list(recommendation(made)),
        "devices_needed": devices_needed(made),
        **known,
        "rows": [row.as_record() for row in made.rows],
    }


# --- who is asked


def _who(given: PlanOptions) -> _Who:
    given_by = {
        "--values": given.values is not None,
        "--mean": given.maximum is not None,
        "--domain": given.domain is not None,
    }
    named = [option for option, one in given_by.items() if one]
    if len(named) > 1:
        raise option_error(f"{' and '.join(named)} both say it", "Leave one out.")
    stated = _stated(given)
    if given.population is not None:
        return _of_population(given, given.population, stated)
    if stated is None:
        raise option_error(
            "how many values there are is not known",
            "Give one of --values N, --mean MAX, --domain FILE, --population SPEC, --strings LENGTH:SYMBOLS.",
        )
    return stated


def _stated(given: PlanOptions) -> _Who | None:
    """What --values, --mean or --domain says; None where none of them is given."""
    from ldpbeam.cli.shared.domains import read_domain
    from ldpbeam.collection.domain import Domain
    from ldpbeam.protocols.estimator import Result

    if given.domain is not None:
        domain, result = read_domain(given.domain)
        return _Who(domain, mean=result is Result.MEAN, ordered=result is Result.DISTRIBUTION)
    if given.maximum is not None:
        return _Who(Domain(given.maximum + 1, maximum=float(given.maximum)), mean=True)
    return None if given.values is None else _Who(Domain(given.values))


def _of_population(given: PlanOptions, spec: str, stated: _Who | None) -> _Who:
    """Values, devices and frequencies of a population; of a file all of its devices and epochs."""
    import numpy as np

    from ldpbeam.collection.domain import Domain
    from ldpbeam.over_time.covariance import DrawnAnew
    from ldpbeam.planning.needs import USUAL_EPOCHS
    from ldpbeam.simulators.population.specs import population
    from ldpbeam.simulators.random_words import RandomWords

    kind = spec.partition(":")[0]
    drawn = kind in {"syn", "zipf"}
    over_time = not drawn and (kind == "panel" or ".." in spec)
    if drawn and stated is None:
        raise option_error(
            "a drawn population does not say how many values there are",
            "Add --values N, --domain FILE or --mean MAX.",
        )
    try:
        people = population(
            spec,
            domain=Domain(_MOST_DISTINCT) if stated is None else stated.domain,
            devices=given.devices if drawn else None,
            epochs=None if over_time else min(given.epochs or USUAL_EPOCHS, 2),
            random_words=RandomWords(1),
            note=say,
        )
    except ValueError as error:
        raise UsageError("E-USAGE-POPULATION", str(error).rstrip(".")) from None
    there = people.epochs if over_time else None
    epochs = people.values()
    first = next(epochs)
    second = next(epochs, None)
    changed = None
    if second is not None and (both := (first >= 0) & (second >= 0)).any():
        changed = DrawnAnew(0.0, float((first[both] != second[both]).mean()))
    if stated is not None and stated.mean:
        return replace(stated, devices=people.devices, epochs=there, drawn_anew=changed)
    labels = tuple(label for label in people.labels or () if label)
    size = given.values or len(labels) or int(first.max()) + 1
    domain = Domain(size, labels) if len(labels) == size else Domain(size)
    if stated is not None and given.domain is not None:
        domain = stated.domain
    counts = np.bincount(first[first >= 0], minlength=domain.size)[: domain.size]
    shares = tuple((counts / counts.sum()).tolist())
    about = _Who(domain) if stated is None else replace(stated, domain=domain)
    return replace(about, devices=people.devices, epochs=there, frequencies=shares, drawn_anew=changed)


def _with_atoms(who: _Who) -> _Who:
    """With the values that hold far more of the population than their neighbours, where none are named."""
    if who.frequencies is None or who.domain.atoms:
        return who
    shares = who.frequencies
    atoms = []
    for value in range(1, len(shares) - 1):  # the ends of a domain need not be named
        near = [*shares[max(value - 3, 0) : value], *shares[value + 1 : value + 4]]
        if shares[value] > max(_FREQUENT, _FAR_ABOVE * sum(near) / len(near)):
            atoms.append(value)
    if not atoms:
        return who
    named = ", ".join(map(who.domain.label, atoms[:8])) + (", …" if len(atoms) > 8 else "")
    say(f"Far more of the population hold {named} than a neighbouring value: a collection names such atoms.")
    return replace(who, domain=replace(who.domain, atoms=tuple(atoms)))
