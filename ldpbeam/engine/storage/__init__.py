"""What the engine keeps on disk: landed reports, accounting of all epochs, and how far it has come."""
