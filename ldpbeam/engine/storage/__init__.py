"""What the engine keeps on disk: landed reports, the state of epochs, the archive of old ones."""
