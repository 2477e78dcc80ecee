"""Synthetic sessions with the shape of real ones, for those who may not replay private data.

`presets` says what is known of real sessions, `shapes` draws lengths and delays from it, `words`, `code`, `logs` and
`prose` make text, `compose` puts text into the shapes, and `check` lays what came out beside what is known.
"""
