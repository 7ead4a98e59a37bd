"""What devices and pipeline agree on: the value object, its file, its domain and its epochs."""
