"""The archive of code that a cluster gets."""
