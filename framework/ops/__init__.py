"""Inspects a live installation: `floe doctor` and the previews of `floe plan`."""
