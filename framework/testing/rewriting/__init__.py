"""Expectations written anew from what a test gave."""
