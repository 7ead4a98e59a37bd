"""The device: plain Python, the standard library and protobuf only."""

from ldp.client.device import Device

__all__ = ["Device"]
