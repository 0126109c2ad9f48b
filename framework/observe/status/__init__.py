"""Where everything stands, read from the control topic."""
