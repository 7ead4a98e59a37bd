"""Helpers of the commands: options, printing, and code that one command loads late."""
