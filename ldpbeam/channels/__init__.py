"""Exact channels: integer probabilities, their calibration, and noise."""
