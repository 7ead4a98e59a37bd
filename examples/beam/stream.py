"""Messages of a Pub/Sub subscription to revisions of frequencies, as JSON on a topic.

Without --subscription it plays a day of messages that it makes itself, and prints the revisions.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

import ldpbeam
from ldpbeam.transforms import FrequenciesPerEpoch, FrequencyRow, as_dict


def played(collection: ldpbeam.Collection) -> TestStream:
    """Most devices report while the epoch lasts, the others in the next hour."""
    start, end = collection.epochs.start(0), collection.epochs.end(0)
    labels = collection.domain.labels
    stream = TestStream()
    for at, devices in ((start + 600, 300), (start + 1200, 300), (start + 7200, 0), (end + 3600, 300)):
        values = [labels[i % len(labels)] for i in range(devices)]
        messages = [ldpbeam.Device.ephemeral(collection).report(value, epoch=0) for value in values]
        stream.advance_watermark_to(at).add_elements([TimestampedValue(m, at) for m in messages])
    return stream.advance_watermark_to_infinity()


def encoded(row: FrequencyRow) -> bytes:
    """A row as JSON."""
    return json.dumps(as_dict(row), default=datetime.isoformat).encode()


def main() -> None:
    """All other options are Beam's, such as --runner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", required=True, help="the collection that the devices had")
    parser.add_argument("--subscription", help="projects/P/subscriptions/S")
    parser.add_argument("--topic", help="projects/P/topics/T, for the revisions")
    given, rest = parser.parse_known_args()
    collection = ldpbeam.load_collection(given.collection)
    runner = [] if given.subscription else ["--runner=BundleBasedDirectRunner"]
    with beam.Pipeline(options=PipelineOptions([*runner, "--streaming", *rest])) as pipeline:
        source: Any = played(collection)
        if given.subscription:
            source = beam.io.ReadFromPubSub(subscription=given.subscription, with_attributes=True)
        rows = pipeline | "Messages" >> source | FrequenciesPerEpoch(collection, early_every="30m")
        if given.topic:
            _ = rows | "Json" >> beam.Map(encoded) | beam.io.WriteToPubSub(given.topic)
        else:
            _ = rows | beam.Map(lambda row: print(row.revision, row.pane, row.label, row.n, row.support))


if __name__ == "__main__":
    main()
