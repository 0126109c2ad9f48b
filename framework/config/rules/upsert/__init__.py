"""Rules of upserts and of history tables."""
