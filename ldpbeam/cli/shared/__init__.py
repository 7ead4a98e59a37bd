"""What commands are made of: options, what is printed, and what one command loads only when it needs it."""
