"""How simulated reports reach a pipeline: files, or a topic."""
