"""The driver and the coordinator: thin loops around pure decisions."""
