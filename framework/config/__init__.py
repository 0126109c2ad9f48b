"""YAML text to a spec, with a place for every mistake. Pure."""
