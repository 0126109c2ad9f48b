"""The coordinator as one pure function: the fold of the log, the tables' queues, and what is decided from them."""
