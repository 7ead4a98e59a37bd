"""The command ``init``: a first collection, by three questions or by options; a plan chooses the protocol."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ldpbeam.cli.shared.console import PrintingCommand, deliver, say
from ldpbeam.cli.shared.options import START, TextOption, epoch_option, next_midnight
from ldpbeam.errors import UsageError, option_error

if TYPE_CHECKING:
    from ldpbeam.cli.shared.domains import FoundStrings
    from ldpbeam.collection.domain import Domain
    from ldpbeam.planning.plan import Plan

_LARGEST_TRIAL = 100_000  # devices that the suggested simulation has
_VALUES = (
    "two or more labels with commas (red, green, blue); how many values there are, from 2 on (40); or 0..MAX "
    "for a counter"
)
_DOMAIN = "In place of --values: a text with a label per line, or a collection (.yaml) with the values."
_LEVEL = 2.0


@dataclass(frozen=True)
class _Answer:
    domain: Domain
    mean: bool
    found: FoundStrings | None = None


def _values(text: str) -> _Answer:
    """Of labels with commas, how many values there are, or the range of a counter whose mean is asked for."""
    from ldpbeam.cli.shared.domains import labelled
    from ldpbeam.collection.domain import MAX_DOMAIN, Domain

    counter = re.fullmatch(r"\s*0\s*\.\.\s*([0-9][0-9_]*)\s*", text)
    number = re.fullmatch(r"\s*([0-9][0-9_]*)\s*", text)
    if counter and 1 <= int(counter[1]) < MAX_DOMAIN:
        return _Answer(Domain(int(counter[1]) + 1, maximum=float(counter[1])), mean=True)
    if number and 2 <= int(number[1]) <= MAX_DOMAIN:
        return _Answer(Domain(int(number[1])), mean=False)
    labels = tuple(label.strip() for label in text.split(","))
    if counter or number or len(labels) < 2:
        raise ValueError(f"{text!r} is none of these: {_VALUES}")
    for label in labels:
        if not label or labels.count(label) > 1:
            raise ValueError(f"{text!r}: the label {label!r} is {'repeated' if label else 'empty'}")
    return _Answer(labelled(labels), mean=False)


_VALUES_OPTION = TextOption("values", _values)


@click.command(cls=PrintingCommand)
@click.argument("file", type=click.Path(path_type=Path), default=Path("collection.yaml"))
@click.option(
    "--values", type=_VALUES_OPTION, metavar="VALUES", help=f"The values that a device can hold: {_VALUES}."
)
@click.option("--domain", type=click.Path(path_type=Path), metavar="FILE", help=_DOMAIN)
@click.option(
    "--from",
    "results",
    type=click.Path(path_type=Path),
    metavar="RESULTS",
    help="In place of --values: strings that a run has found, and other. Devices, level, epoch and slices "
    "are those of its collection where no option says them.",
)
@click.option("--devices", type=click.IntRange(1), metavar="N", help="Devices that report in an epoch.")
@click.option(
    "--epsilon-longitudinal",
    "level",
    type=click.FloatRange(1e-6, 32),
    help=f"The most that all reports about one value may tell, ε∞.  [default: {_LEVEL:g}]",
)
@epoch_option("Length of an epoch, in which a device reports once.")
@click.option(
    "--epochs", type=click.IntRange(1), default=30, show_default=True, help="How many epochs are planned."
)
@click.option(
    "--start",
    type=START,
    help="Start of the first epoch; a date is midnight UTC. Default: the next midnight UTC.",
)
@click.option("--name", help="Name of the collection. Default: the name of FILE without its suffix.")
def init(  # noqa: PLR0913 - an argument for each option
    file: Path,
    *,
    values: _Answer | None,
    domain: Path | None,
    results: Path | None,
    devices: int | None,
    level: float | None,
    epoch: int,
    epochs: int,
    start: int | None,
    name: str | None,
) -> None:
    """Write a first collection to FILE (collection.yaml), and print the next two commands.

    In a terminal init asks three questions: which values a device can hold, how many devices report, and how
    much all reports about one value may tell. An option answers its question:

    \b
      ldpbeam init --values "red, green, blue" --devices 20000

    The protocol is the one that ldpbeam plan recommends. ldpbeam plan takes more limits: for all reports of a
    device, for the error, for the bits of a report. FILE must not exist.
    """
    from ldpbeam.collection.epochs import duration
    from ldpbeam.collection.file import parse_collection
    from ldpbeam.collection.slices import NO_SLICES
    from ldpbeam.planning.collection_text import Particulars, collection_text
    from ldpbeam.planning.needs import FrequencyNeeds, MeanNeeds
    from ldpbeam.planning.plan import make_plan
    from ldpbeam.planning.sentences import ROUND_NUMBERS, described, interval_words

    if file.exists() or file.is_symlink():
        raise _exists(file)
    about = _about(values, domain, results)
    slices, comment = NO_SLICES, ""
    if about.found:
        searched, comment = about.found.collection, about.found.comment
        devices, slices = devices or about.found.reports, searched.slices
        level = level or searched.parameters.epsilon_longitudinal or searched.parameters.epsilon
        if click.get_current_context().get_parameter_source("epoch") is ParameterSource.DEFAULT:
            epoch = searched.epochs.length
    present = devices or _ask("--devices", "How many devices report in an epoch?", click.IntRange(1))
    if level is None:
        level = _ask(
            "--epsilon-longitudinal",
            "How much may all reports about one value tell, ε∞ (1 is strict, 4 is loose)?",
            click.FloatRange(1e-6, 32),
            _LEVEL,
        )
    kind = MeanNeeds if about.mean else FrequencyNeeds
    made: Plan = make_plan(kind(about.domain.size, present, epochs, longitudinal=level))
    row = made.recommended
    if row is None:
        raise option_error("no protocol keeps this level", "Give a larger --epsilon-longitudinal.")
    began = next_midnight() if start is None else start
    particulars = Particulars(name or file.stem, about.domain, duration(epoch), began, slices)
    text = comment + collection_text(row, made.needs, particulars)
    collection = parse_collection(text, str(file))
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise _exists(file) from None
    say(f"{file}: {described(row)}, {interval_words(row, made.needs)}")
    if about.domain.has_order and not about.mean:
        say(f"For medians and other quantiles of values in an order: ldpbeam plan --ordered. {ROUND_NUMBERS}")
    quoted = shlex.quote(str(file))
    trial = min(present, _LARGEST_TRIAL)
    following = [
        f"ldpbeam check {quoted} --devices {present}",
        f"ldpbeam simulate --collection {quoted} --population zipf:1.1 --devices {trial} --epochs "
        f"{min(epochs, 2)} --output simulated",
    ]
    say("Next: what it promises, and a trial with simulated devices", *(f"  {line}" for line in following))
    deliver({"collection": str(file), "digest": collection.digest_hex, "next": following})


def _about(values: _Answer | None, domain: Path | None, results: Path | None) -> _Answer:
    """Which values a device can hold, as an option says it, or a person who is asked."""
    from ldpbeam.cli.shared.domains import found_strings, read_domain
    from ldpbeam.protocols.estimator import Result

    if sum(map(bool, (values, domain, results))) > 1:
        raise option_error("--values, --domain and --from each say it", "Give one.")
    if results:
        found = found_strings(results)
        return _Answer(found.domain, mean=False, found=found)
    if domain:
        named, result = read_domain(domain)
        return _Answer(named, mean=result is Result.MEAN)
    answer: _Answer = values or _ask(
        "--values", f"Which values can a device hold: {_VALUES}?", _VALUES_OPTION
    )
    return answer


def _exists(file: Path) -> UsageError:
    return UsageError(
        "E-USAGE-OUTPUT", f"{file} exists", remedy="Give another file; init overwrites nothing."
    )


def _ask(option: str, question: str, kind: click.ParamType[Any], default: Any = None) -> Any:
    """The answer of a person; without a terminal the default."""
    if sys.stdin.isatty():
        return click.prompt(question, type=kind, default=default, prompt_suffix=" ", err=True)
    if default is None:
        raise option_error(
            f"{option} is missing, and there is no terminal to ask in",
            f"Give {option}; ldpbeam init --help has an example.",
        )
    return default
