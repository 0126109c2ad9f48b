"""Upserts in a task: newest change of each key, writer, index job."""
