"""What hostile files may cost a run, by default. Imports nothing, for the command line to answer at once."""

__all__ = ["LIMITS", "MAX_EPOCHS", "MAX_EXPANSION", "READ_ATTEMPTS"]

MAX_EXPANSION = 100
"""Bytes of reports that a stored byte may stand for; sound reports, with their random ids, stay below 10."""
MAX_EPOCHS = 10_000
"""Epochs of a collection in a run over files: a year of hours."""
READ_ATTEMPTS = 3
"""How often a file is tried that cannot be read."""

LIMITS = ("max_expansion", "max_epochs", "not_after", "read_attempts")
"""Names of the options, which are fields of RunConfig."""
