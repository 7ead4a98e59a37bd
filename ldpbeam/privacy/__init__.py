"""What a device can lose: guarantees as values, computed from the integer probabilities."""
