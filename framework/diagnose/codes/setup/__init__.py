"""Codes of what surrounds a run: machine, broker, catalog, cluster, plans."""
