"""Files and pages that floe writes."""
