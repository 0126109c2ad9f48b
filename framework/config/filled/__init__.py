"""A file with overlays, references and variables filled in."""
