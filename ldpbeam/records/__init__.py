"""What runs and collectors write beside the estimates: one reader and one writer for each kind."""
