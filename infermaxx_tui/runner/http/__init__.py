"""An HTTP/1.1 client of its own, because what a general one does for each read costs more than reading the read."""
