"""What runs and tables say of themselves, read from outside."""
