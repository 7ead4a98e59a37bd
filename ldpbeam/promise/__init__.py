"""What a collection promises to a device: losses, best guesses, and the leverage of forged reports."""
