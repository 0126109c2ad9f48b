"""Values in files: durations, types, formats, policies."""
