"""The state of the engine on disk: landed reports, accounting of all epochs, positions in its input."""
