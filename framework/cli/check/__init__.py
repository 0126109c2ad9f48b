"""Verbs that check files, targets and tables, and change nothing."""
