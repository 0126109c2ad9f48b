"""What the coordinator publishes about itself and its tables."""
