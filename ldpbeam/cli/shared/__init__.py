"""What commands are made of: options, what is printed, and views of files."""
