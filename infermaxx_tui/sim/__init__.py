"""A server that speaks vLLM's wire, with scripted faults: what the demo, the tests and the selftest run on."""
