"""The audit of a client: what its reports, as sent, say about the privacy that it really gives.

The audit knows a client by the bytes that it returns for a value and an epoch, and nothing else. Every
statistical test is exact; docs/audit.md says what is tested, at which false-alarm rate, and what is not.
"""
