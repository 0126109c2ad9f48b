"""Delete files and deletion vectors, beyond what PyIceberg writes."""
