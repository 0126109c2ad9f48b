"""What a run shows while it lives: page, probes, metrics."""
