"""Topics, pipelines and tables as a drawing."""
