"""What looks at a live installation: `floe doctor` and the previews of `floe plan`."""
