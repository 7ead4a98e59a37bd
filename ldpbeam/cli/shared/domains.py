"""The values that a person names before there is a collection: by a file, or as words on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError, option_error
from ldpbeam.protocols.estimator import Result

if TYPE_CHECKING:
    from ldpbeam.collection.collection import Collection

_OTHER = "none of these"
"""The label of a list that stands for all that the list lacks."""


def labelled(labels: tuple[str, ...]) -> Domain:
    return Domain(len(labels), labels, other=labels.index(_OTHER) if _OTHER in labels else None)


def read_domain(path: Path) -> tuple[Domain, Result]:
    """The domain of a collection's file, or of a text with a label per line; and the kind of its result."""
    if path.suffix in (".yaml", ".yml"):
        from ldpbeam.collection.file import load_collection

        collection = load_collection(path)
        if collection.is_discovery:
            raise option_error(
                f"{path} asks for strings, and a plan is for values that are listed",
                f"ldpbeam check {path} --devices N says from which share on strings are found.",
            )
        if collection.domain is None:
            raise option_error(
                f"{path} asks for several attributes",
                "Take one attribute at a time: --values says which values it has.",
            )
        return collection.domain, collection.protocol.estimator.result
    try:
        labels = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise option_error(
            f"{path} is not a readable text ({type(error).__name__})", "Check the path."
        ) from None
    if path.suffix.lower() == ".csv" and labels and "," in labels[0]:
        raise option_error(
            f"{path} is a table, and a domain is a text with a label per line",
            f"Take a column of it: --population csv:{path}:COLUMN.",
        )
    return labelled(tuple(one for one in labels if one.strip())), Result.FREQUENCIES


@dataclass(frozen=True)
class FoundStrings:
    """The strings that a run has found, as the labels of a domain, and one more for all others."""

    collection: Collection
    domain: Domain
    reports: int  # counted in the newest epoch
    comment: str  # a line for the file of a collection


def found_strings(results: Path) -> FoundStrings:
    from ldpbeam.cli.shared.histories import known_collections
    from ldpbeam.collection.string_domain import StringDomain
    from ldpbeam.hashing.strings import text_of
    from ldpbeam.over_time.results import read_results
    from ldpbeam.records.run_record import RUN_RECORD, read_record

    searched = [one for one in known_collections(results, ()).values() if one.is_discovery]
    if not searched:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{results} has no run.json of a collection of strings",
            remedy="Give the directory that was --output of a run with domain: {strings: ...}.",
        )
    collection = max(searched, key=lambda one: one.version)
    assert isinstance(collection.domain, StringDomain)  # noqa: S101 - of every discovery
    rows = read_results(results).sort_by([("epoch", "descending"), ("value", "ascending")]).to_pylist()
    texts = [text_of(row["label"]) for row in rows if row["digest"] == collection.digest_hex]
    labels = tuple(dict.fromkeys(text for text in texts if text is not None))
    if not labels:
        raise UsageError(
            "E-USAGE-RESULTS",
            f"{results} has found no string",
            remedy="ldpbeam check COLLECTION --devices N says how many devices it takes.",
        )
    other = "other"
    while other in labels:
        other = f"({other})"
    strings = collection.domain.strings
    written = "in small letters" * strings.fold, f"without symbols but {strings.symbols!r}" * strings.drop
    comment = f"# Found by {collection.name} version {collection.version}.\n"
    if any(written):
        comment += f"# Give a device its text as it was found: {', '.join(filter(None, written))}.\n"
    epochs = read_record(results / RUN_RECORD).accounting.epochs
    newest = max((one for one in epochs if one.digest == collection.digest_hex), key=lambda one: one.epoch)
    domain = Domain(len(labels) + 1, (*labels, other), other=len(labels))
    return FoundStrings(collection, domain, newest.account.counted, comment)
