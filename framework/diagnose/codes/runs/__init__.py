"""Codes of runs: records, tables, offsets, recovery, maintenance."""
