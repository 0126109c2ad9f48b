"""Who may ask, and what for."""
