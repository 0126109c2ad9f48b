"""Lineage events (OpenLineage) built from values. Knows no clock, broker, catalog or server."""
