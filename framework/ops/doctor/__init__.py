"""Checks of this machine and of a target."""
