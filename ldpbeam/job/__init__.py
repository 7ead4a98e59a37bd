"""What a run is asked to do: options as frozen values, and the files that its input names."""
