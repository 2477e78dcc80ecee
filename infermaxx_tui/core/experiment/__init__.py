"""Experiments: arms that differ in one lever, what each of them measured, and what moved between them."""
