"""The graph that the suite runs, named in one place: whoever swaps it changes nothing else.

`build(pipeline, config)` applies it; `outcome(config)` reads what it published, comparable with ==; `bounded`
and `live` give configurations over the same records, once from a source that ends and once from one that
does not, which reads slowly enough to be killed in the middle.
"""

from pathlib import Path

from tests.flink.stream import Config, Counts, Published, build, expected, outcome

__all__ = ["Config", "Counts", "Published", "bounded", "build", "expected", "live", "outcome"]


def bounded(output: Path) -> Config:
    """A source that ends."""
    return Config(str(output), blocks=1500, late=17)


def live(output: Path) -> Config:
    """A source that goes on, gives 20 records at a time and takes some 20 s over all."""
    return Config(str(output), blocks=1500, late=17, source="ranges", together=20, pause=0.01)
