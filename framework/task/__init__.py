"""What runs on executors: the stage of one batch, its exchange, and the stage cut in three for SQL."""
