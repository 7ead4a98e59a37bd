"""The values that a person names before there is a collection: by a file, or as words on the command line."""

from __future__ import annotations

from pathlib import Path

from ldpbeam.collection.domain import Domain
from ldpbeam.errors import UsageError
from ldpbeam.protocols.estimator import Result

_OTHER = "none of these"
"""The label of a list that stands for all that the list lacks."""


def labelled(labels: tuple[str, ...]) -> Domain:
    return Domain(len(labels), labels, other=labels.index(_OTHER) if _OTHER in labels else None)


def read_domain(path: Path) -> tuple[Domain, Result]:
    """The domain of a collection's file, or of a text with a label per line; and the kind of its result."""
    if path.suffix in (".yaml", ".yml"):
        from ldpbeam.collection.file import load_collection

        collection = load_collection(path)
        if collection.domain is None:
            raise UsageError(
                "E-USAGE-OPTION",
                f"{path} asks for several attributes",
                remedy="Take one attribute at a time: --values says which values it has.",
            )
        return collection.domain, collection.protocol.estimator.result
    try:
        labels = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "E-USAGE-OPTION",
            f"{path} is not a readable text ({type(error).__name__})",
            remedy="Check the path.",
        ) from None
    if path.suffix.lower() == ".csv" and labels and "," in labels[0]:
        raise UsageError(
            "E-USAGE-OPTION",
            f"{path} is a table, and a domain is a text with a label per line",
            remedy=f"Take a column of it: --population csv:{path}:COLUMN.",
        )
    return labelled(tuple(one for one in labels if one.strip())), Result.FREQUENCIES
