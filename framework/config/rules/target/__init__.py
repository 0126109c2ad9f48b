"""Rules of targets."""
