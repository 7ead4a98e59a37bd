"""A device agent: reports each minute how busy this machine is, and never says it.

    python examples/agent/agent.py --state ~/.local/state/ldpbeam-agent

Start examples/agent/histogram.py first, here or on another machine; it collects and counts. What leaves this
machine is a randomised report, kept in the state folder until the collector has it. Ctrl-C stops the agent;
started again it goes on as the same device.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from bisect import bisect
from math import inf
from pathlib import Path

from ldpbeam import Device, Index, LdpError, Sender, load_collection

HERE = Path(__file__).parent
BOUNDS = (0.1, 0.4, 0.7, 1.0)
"""Between the collection's values: processes that want to run, for each processor."""


def load() -> int:
    """How busy the machine was over the last minute: the place of one of the collection's labels."""
    return bisect(BOUNDS, os.getloadavg()[0] / (os.cpu_count() or 1))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--collection", type=Path, default=HERE / "load.yaml")
    parser.add_argument("--collector", default="http://127.0.0.1:8080/v1/reports", metavar="URL")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="keep it: it is the device")
    parser.add_argument("--devices", type=int, default=1, help="pretend to be several, to try things out")
    parser.add_argument("--epochs", type=int, default=None, help="stop after so many")
    return parser.parse_args()


def main() -> None:
    asked = options()
    collection = load_collection(asked.collection)
    # It runs all day, so the whole minute is there to send in: when a report comes says nothing then.
    devices = [Device.open(collection, asked.state / str(n), spread=inf) for n in range(asked.devices)]
    senders = [Sender(device.outbox, asked.collector) for device in devices]
    reported, last = 0, None
    while asked.epochs is None or reported < asked.epochs or any(len(device.outbox) for device in devices):
        epoch = collection.epochs.index(time.time())
        if epoch != last and reported != asked.epochs:
            held = Index(load())
            try:
                for device in devices:
                    device.report(held, epoch)
                reported += 1
            except LdpError as error:  # the clock went back, or the disk is full: the next minute may do
                print(error, file=sys.stderr)
            last = epoch
        for sender in senders:
            sender.send_due()
        time.sleep(0.5)


if __name__ == "__main__":
    try:
        main()
    except LdpError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
