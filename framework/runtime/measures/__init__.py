"""What runs and commits measure."""
