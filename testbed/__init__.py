"""Servers and sample records that tests and benchmarks share."""
