"""A run as values: a change of one value leaves all others as they are."""

import pytest

from ldpbeam.job.config import RunConfig
from tests.pipelines.running import collection

ONE = RunConfig.parsed(
    (collection("grr", 4, "one"),),
    kafka_topic="t",
    kafka_servers="s",
    publish_topic="projects/project/topics/t",
    bigquery_table="p:d.t",
    output="out",
    job="j",
    watermark_delay=2.0,
)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"kafka_topic": "u"}, "input"),
        ({"bigquery_table": "p:d.u"}, "outputs"),
        ({"output": "there"}, "outputs"),
        ({"shard_bits": 3}, "counting"),
        ({"watermark_delay": 1.0}, "engine"),
        ({"overwrite": True}, "job"),
    ],
)
def test_a_change_concerns_one_part(values: dict[str, object], part: str) -> None:
    changed = ONE.changed(**values)
    assert {name for name in vars(ONE) if getattr(changed, name) != getattr(ONE, name)} == {part}
    assert ONE.changed(**values).changed() == changed


def test_other_brokers_and_other_sinks_stay() -> None:
    changed = ONE.changed(kafka_topic="u", bigquery_table="")
    assert changed.input.brokers == {"kafka_topic": "u", "kafka_servers": "s"}
    assert changed.outputs.targets == {"publish_topic": "projects/project/topics/t", "bigquery_table": ""}
    assert ONE.changed(brokers={}, watch="folder").input.brokers == {"watch": "folder"}


def test_a_value_that_is_none_is_named() -> None:
    with pytest.raises(TypeError, match="no value of a run is called setle"):
        ONE.changed(setle=1.0)
