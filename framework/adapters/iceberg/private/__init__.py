"""What overrides or uses inner parts of PyIceberg, kept apart from the rest."""
