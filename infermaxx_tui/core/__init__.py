"""The pure heart: no clock, no files, no network, no threads, no terminal."""
