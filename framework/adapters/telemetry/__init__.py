"""What leaves the process for people and monitors: metrics, lineage, logs, safe output."""
