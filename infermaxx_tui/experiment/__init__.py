"""Conducting experiments: files on disk, and one run after another. What the results mean is in core.experiment."""
