"""Files of reports to a Parquet file of frequencies, and lines of JSON of what was not counted."""

from __future__ import annotations

import argparse
import json
from collections import Counter

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import ldpbeam
from ldpbeam.transforms import FrequenciesPerEpoch, FrequencyRow, ReadReports, arrow_schema, as_dict


def main() -> None:
    """All other options are Beam's, such as --runner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", required=True, help="the collection that the devices had")
    parser.add_argument("--input", required=True, help="pattern of files, such as 'reports/*'")
    parser.add_argument("--output", required=True, help="what the names of the files begin with")
    given, rest = parser.parse_known_args()
    collection = ldpbeam.load_collection(given.collection)
    pipeline = beam.Pipeline(options=PipelineOptions(rest or ["--runner=FnApiRunner"]))
    found = (
        pipeline
        | "Read" >> ReadReports(given.input)
        | "Frequencies" >> FrequenciesPerEpoch(collection).with_outputs()
    )
    _ = (
        found.frequencies
        | "Rows" >> beam.Map(as_dict)
        | "Parquet" >> beam.io.WriteToParquet(f"{given.output}-frequencies", arrow_schema(FrequencyRow))
    )
    rejected = found.rejected | "Rejected" >> beam.Map(as_dict)
    _ = rejected | "Json" >> beam.Map(json.dumps) | beam.io.WriteToText(f"{given.output}-rejected")
    result = pipeline.run()
    result.wait_until_finish()
    total: Counter[str] = Counter()
    for one in result.metrics().query(beam.metrics.MetricsFilter().with_namespace("ldpbeam"))["counters"]:
        total[one.key.metric.name] += one.committed  # some are counted in several steps
    print(*(f"{name} {count}" for name, count in sorted(total.items())), sep="\n")


if __name__ == "__main__":
    main()
