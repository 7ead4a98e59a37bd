"""A client in a process of its own, as docs/audit.md has it: COLLECTION, and how it is broken, if at all."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ldpbeam.client import Device
from ldpbeam.collection.file import load_collection
from ldpbeam.collection.values import Index


def answer(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def value_of(text: str) -> Any:
    """A value: the number itself, the index behind ``index:``, or the text behind ``text:``."""
    mark, index = text[:6], text[6:]
    if text.startswith("text:"):
        return bytes.fromhex(text[5:]).decode()
    return Index(int(index)) if mark == "index:" else int(text)


def main(collection_file: str, broken: str = "") -> None:
    collection = load_collection(Path(collection_file))
    devices: dict[str, Device] = {}
    reported: dict[str, int] = {}
    for line in sys.stdin:
        first, *rest = line.split(maxsplit=3)
        if first == "reopen":
            if reported.pop(rest[0], None) is not None and broken == "forgets":
                devices[rest[0]] = Device.ephemeral(collection)
            answer("what?" if broken == "deaf" else "ok")
            continue
        values = tuple(map(value_of, rest[0].split(",")))
        value = values if collection.attributes else values[0]
        # Devices of the audit that last are opened again; this one keeps all of them open instead.
        device = devices.setdefault(first, Device.ephemeral(collection))
        reported[first] = int(rest[1])
        if broken == "dies" and len(devices) > 40:
            sys.exit(3)
        if broken == "truth" and len(devices) % 2:
            value = Index(collection.protocol.domain_size - 1)
        try:
            slice_ = json.loads(rest[2]) if len(rest) > 2 else None
            message = device.report(value, int(rest[1]), slice=slice_)
            report = "none" if message is None else message.hex()
        except Exception as error:
            report = f"error {type(error).__name__}"
        answer("zz" if broken == "garbage" else report)
        if broken == "hangs":
            sys.stdin.read()


main(*sys.argv[1:])
