"""The core that a device and a server must agree on: protocols, counting, estimates. No Beam in here."""

__version__ = "0.1.0"
