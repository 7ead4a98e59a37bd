"""A domain of texts that nobody listed: a value is the fingerprints of its prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldpbeam.collection.domain import Domain, require_printable
from ldpbeam.errors import require
from ldpbeam.hashing.listed import FINGERPRINTS
from ldpbeam.hashing.strings import Strings

MOST_SYMBOLS = 256
MOST_LENGTH = 64


@dataclass(frozen=True, kw_only=True)
class StringDomain(Domain):
    """Texts of an alphabet; ``size`` is the number of fingerprints, and no number of values."""

    size: int = FINGERPRINTS
    strings: Strings

    def __post_init__(self) -> None:
        """Raises CollectionError for no length, or an alphabet with a symbol twice or not to be printed."""
        strings = self.strings
        object.__setattr__(self, "_positions", {})
        require(
            1 <= strings.max_length <= MOST_LENGTH,
            "domain",
            f"max_length must lie in 1 .. {MOST_LENGTH}, not {strings.max_length}",
            "Choose the length of the longest text that you want to find.",
        )
        different = len(set(strings.symbols))
        require(
            2 <= different == len(strings.symbols) <= MOST_SYMBOLS,
            "domain",
            f"symbols must be 2 to {MOST_SYMBOLS} different characters, not {len(strings.symbols)} of which "
            f"{different} are different",
            "Write every character once, or the name of an alphabet such as lower.",
        )
        require_printable(strings.symbols, "symbols", "domain")

    @property
    def values(self) -> None:
        """None: nobody lists them."""

    def __str__(self) -> str:
        return f"strings of up to {self.strings.max_length} symbols"

    @property
    def numeric(self) -> bool:
        """Texts have no mean."""
        return False

    def fingerprints_of(self, given: Any) -> tuple[int, ...]:
        """The value of a device that holds a text."""
        if not isinstance(given, str):
            raise ValueError("no text, where the domain has strings")
        return self.strings.fingerprints(given)
