"""The terminal: it reads a log and shows it."""
