"""The device: plain Python, the standard library and protobuf only.

:mod:`ldpbeam.client.sender` posts what waits in a device's outbox. It is not loaded with this package, since
it brings most of an HTTP library.
"""

from ldpbeam.client.device import Device
from ldpbeam.client.folder import WaitingReport
from ldpbeam.client.outbox import DropCounts, Outbox
from ldpbeam.client.spending import CollectionSpending, Spending

__all__ = ["CollectionSpending", "Device", "DropCounts", "Outbox", "Spending", "WaitingReport"]
