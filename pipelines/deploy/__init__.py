"""What clouds need besides the packages: templates, schemas, images."""
