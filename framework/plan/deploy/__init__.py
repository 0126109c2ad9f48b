"""Submitting and rolling out."""
