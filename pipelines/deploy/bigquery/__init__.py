"""What a BigQuery table of estimates looks like: its schema, and a view of the newest revisions.

The schema, and the columns that the view lists, are generated from the schema of the Parquet files:
``python -m ldpbeam.pipelines.deploy.bigquery`` writes them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ldpbeam.collection.file import parse_collection
from ldpbeam.tables import estimates_schema
from ldpbeam.transforms.sinks.bigquery import bigquery_schema

FOLDER = Path(__file__).parent

_ANY = """\
name: any
domain: {size: 2, ordered: true}
protocol: olh
hash_family: interval
epsilon: 1.0
epoch: {length: 1d}
"""
"""A collection whose estimates have every column that there is."""

_LISTED = re.compile(r"(?<=\nSELECT\n  )[a-z_,\s]+(?=\nFROM ranked\n)")
"""The columns that the view lists; everything else in latest.sql is written by hand."""


def generated() -> dict[str, str]:
    schema = bigquery_schema(estimates_schema(parse_collection(_ANY)))
    columns = ",\n  ".join(column["name"] for column in schema)
    return {
        "estimates.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "latest.sql": _LISTED.sub(columns, (FOLDER / "latest.sql").read_text("utf-8")),
    }
