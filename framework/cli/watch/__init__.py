"""Verbs that show what runs, and pause or stop it."""
