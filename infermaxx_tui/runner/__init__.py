"""The process that measures: it has no terminal code and outlives the terminal."""
