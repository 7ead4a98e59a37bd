"""A flex template of ``ldpbeam run``: its metadata, and what its launcher passes on.

A template starts the unbounded job over a subscription. The launcher passes ``--name=value`` for everything;
the names are those of the command line with underscores for hyphens, as Beam spells its own options beside
them. So the metadata is generated from there: ``python -m ldpbeam.pipelines.deploy.dataflow`` writes it.
"""

from __future__ import annotations

import json
import logging
import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldpbeam.collection.epochs import duration
from ldpbeam.job.config import options as declared
from ldpbeam.job.option import Option, OptionKind
from ldpbeam.transforms.sinks import SINKS

FOLDER = Path(__file__).parent


def _spelt(name: str, option: Option) -> str:
    return option.spelt(name).partition("/")[0].removeprefix("--").replace("-", "_")


_LOG = logging.getLogger(__name__)

LEFT_OUT = {
    "kafka_expansion": "tried on Flink only",
    "kafka_servers": "tried on Flink only",
    "kafka_topic": "tried on Flink only",
    "pubsub_expansion": "Dataflow reads Pub/Sub itself",
    "watch": "of the local engine",
    **{
        _spelt(name, option): option.template_lacks
        for name, (option, _) in declared().items()
        if option.template_lacks
    },
}
"""Options of ``ldpbeam run`` that a template does not have, and why."""

_REQUIRED = {"collection", "subscription", "output"}

_HELP = {
    "collection": "Collection files, gs://… or in the image, separated by commas.",
    "subscription": "Pub/Sub subscription of reports, one message each or a batch.",
    "output": "Folder in Cloud Storage for estimates and accounting, gs://BUCKET/FOLDER.",
    "job": "Signs this job's revisions. Keep it when a job is updated; choose another one for a new job. "
    "Default: random.",
}
"""Where a template needs other words than the command line."""

_BY_METAVAR = {
    "DURATION": ("TEXT", r"^(\d+[smhdw])+$"),
    "NAME": ("TEXT", r"^[-.\w]+$"),
    "projects/P/subscriptions/S": ("PUBSUB_SUBSCRIPTION", r"^projects/[^/]+/subscriptions/[^/]+$"),
    "DIR": ("GCS_WRITE_FOLDER", r"^gs://[^/]+/.+$"),
    **{sink.metavar: sink.template for sink in SINKS.values()},
}

_IMAGE = {
    "name": "sdk_container_image",
    "label": "SDK container image",
    "helpText": "Image of the workers; the image of this template is made for it.",
    "isOptional": True,
    "regexes": [r"^\S+$"],
    "paramType": "TEXT",
}
"""An option of Beam."""


_COLLECTION = Option("", kind=OptionKind.TEXTS, metavar="FILE", names="--collection", required=True)
"""Of each command that reads collections; all other options are declared with the values of a run."""


def options() -> dict[str, tuple[Option, Any]]:
    """The options of ``ldpbeam run`` and their defaults, by the name of a parameter."""
    parameters = {"collection_files": (_COLLECTION, ())} | declared()
    return {_spelt(name, option): (option, default) for name, (option, default) in parameters.items()}


def generated() -> dict[str, str]:
    metadata = {
        "name": "ldpbeam",
        "description": "Frequencies from reports under local differential privacy, epoch after epoch.",
        "streaming": True,
        "supportsAtLeastOnce": False,
        "supportsExactlyOnce": True,
        "parameters": [
            *(_parameter(name, *about) for name, about in options().items() if name not in LEFT_OUT),
            _IMAGE,
        ],
    }
    return {"metadata.json": json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"}


def _parameter(name: str, option: Option, default: Any) -> dict[str, object]:
    kind, pattern = _values(option)
    text = _HELP.get(name) or option.help
    if option.shown:
        shown = duration(default) if option.kind is OptionKind.DURATION else default
        text = f"{text} Default: {str(shown).lower() if option.kind is OptionKind.FLAG else shown}."
    return {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": text.strip(),
        "isOptional": name not in _REQUIRED,
        **({"regexes": [pattern]} if pattern else {}),
        "paramType": kind,
    }


def _values(option: Option) -> tuple[str, str]:
    """Type of a parameter, and the pattern of its values."""
    if option.kind is OptionKind.FLAG:
        return "BOOLEAN", "^(true|false)$"
    if option.kind is OptionKind.TEXTS:
        return "TEXT", r"^[^,\s]+(,[^,\s]+)*$"
    if option.kind is OptionKind.COUNT and option.most is not None:
        return "TEXT", f"^({'|'.join(map(str, range(option.least, option.most + 1)))})$"
    if option.kind is OptionKind.FRACTION:
        return "TEXT", r"^(0(\.\d+)?|1(\.0+)?)$"
    return _BY_METAVAR.get(option.metavar or "", ("TEXT", ""))


def run_template() -> None:
    """Run the command line as the launcher asks; pipelines/deploy/dataflow/launch.py calls nothing else."""
    logging.basicConfig(level=logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        sys.argv[1:] = arguments(sys.argv[1:], Path(folder))
        runpy.run_module("ldpbeam", run_name="__main__")


def arguments(given: Sequence[str], folder: Path) -> list[str]:
    """What the launcher gives, as the command line takes it; ``folder`` takes collections from elsewhere."""
    known, ours, others = options(), [], []
    for argument in given:
        name, _, value = argument.removeprefix("--").partition("=")
        if name not in known:
            others.append(argument)
            continue
        option, _ = known[name]
        spelt, _, off = option.spelt(name).partition("/")
        if option.kind is OptionKind.FLAG:
            ours += [spelt] if value.lower() != "false" else [off] if off else []
        elif option.kind is OptionKind.TEXTS:
            ours += [f"{spelt}={_local(part, folder)}" for part in value.split(",")]
        elif value:
            ours.append(f"{spelt}={value}")
    return ["run", *ours, *_known_to_beam(others), "--detach"]


def _local(path: str, folder: Path) -> str:
    """A file of any file system, as one of this machine."""
    if "://" not in path:
        return path
    from apache_beam.io.filesystems import FileSystems

    copy = folder / f"{len(list(folder.iterdir()))}-{path.rpartition('/')[2]}"
    with FileSystems.open(path) as source:
        copy.write_bytes(source.read())
    return str(copy)


def _known_to_beam(given: list[str]) -> list[str]:
    """Without what a newer launcher may add; names of parameters were checked against the metadata before."""
    from apache_beam.options.pipeline_options import PipelineOptions

    parsers: list[Any] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    _, unknown = parsers[0].parse_known_args(given)
    for argument in unknown:
        _LOG.warning("passed over %s, which this version of Beam does not know", argument)
    if any(argument.startswith("--sdk_container_image=") for argument in given):
        given = [*given, "--sdk_location=container"]
    return [argument for argument in given if argument not in unknown]
