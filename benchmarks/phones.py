"""What the device costs an app: size of the library, cold start, time and memory of a report.

    make kotlin && python benchmarks/phones.py

With an outbox, LOLOHA at k = 1,000. *Cold start* lasts from the first use of the device in a process to its
first report: a new folder, and in Kotlin JNA and the library, which are loaded. A report's *CPU* is that in
a folder in memory (/dev/shm), where nothing waits for a disk; *with the disk* is its time by a clock in a
folder on the disk. *Memory* is what the process has taken, at its peak, after 2,501 reports. Each time of
a report is the least of five runs of 500.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from ldpbeam.collection.device_definition import device_definition_text
from ldpbeam.collection.file import parse_collection

_CLIENTS = Path(__file__).resolve().parents[1] / "clients"
_YAML = """
name: device
domain: {size: 1000}
protocol: loloha
epsilon_longitudinal: 2.0
epsilon_first: 1.0
epoch: {length: 1h}
"""
_MAVEN = ["mvn", "-q", "-B", "test-compile", "org.codehaus.mojo:exec-maven-plugin:3.6.3:java"]
_KOTLIN = [*_MAVEN, "-Dexec.mainClass=ldpbeam.CostKt", "-Dexec.classpathScope=test"]


def figures(command: list[str], room: str) -> dict[str, int]:
    """The lines that a program prints of itself, by their first word."""
    done = subprocess.run(  # noqa: S603 - programs of this repository
        command, cwd=_CLIENTS / room, capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    for library in sorted((_CLIENTS / "kotlin/target/native").rglob("*.so")):
        print(f"library for {library.parent.name}: {library.stat().st_size:,} bytes")
    figures(["cargo", "build", "-q", "--release", "--locked", "--example", "cost"], "rust")
    cost = str(_CLIENTS / "rust/target/release/examples/cost")
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        definition = Path(disk, "definition.json")
        definition.write_text(device_definition_text(parse_collection(_YAML)), "ascii")
        quick = figures([cost, str(definition), f"{memory}/rust"], "rust")
        lasting = figures([cost, str(definition), f"{disk}/rust"], "rust")
        kotlin = figures([*_KOTLIN, f"-Dexec.args={definition} {memory}/kotlin"], "kotlin")
    print(f"cold start: {quick['first']:,} µs in Rust, {kotlin['start']:,} µs in Kotlin")
    print(f"a report's CPU: {quick['cpu']:,} µs in Rust, {kotlin['kotlin']:,} µs in Kotlin")
    print(f"with the disk: {lasting['clock']:,} µs")
    print(f"memory: {quick['memory']:,} KiB in Rust")


if __name__ == "__main__":
    main()
