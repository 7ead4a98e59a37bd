"""The five stages as steps of a Beam pipeline."""
