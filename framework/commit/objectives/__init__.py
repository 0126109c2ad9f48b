"""Objectives of a pipeline: what counts, what of it is bad, and what is left of the error budget."""
