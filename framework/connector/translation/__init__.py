"""Settings of a sink translated into a pipeline file and a target."""
