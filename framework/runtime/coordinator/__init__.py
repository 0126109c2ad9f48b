"""The thread that coordinates, and what it asks of catalogs."""
