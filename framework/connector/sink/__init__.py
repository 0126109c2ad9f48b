"""The sink, interpreted by itself: what its tables would hold."""
