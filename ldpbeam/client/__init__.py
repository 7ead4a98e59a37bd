"""The device: plain Python, the standard library and protobuf only."""

from ldpbeam.client.device import Device

__all__ = ["Device"]
