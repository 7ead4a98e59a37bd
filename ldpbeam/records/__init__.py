"""What lies on disk beside the estimates: one reader and one writer for each kind of record."""
