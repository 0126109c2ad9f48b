"""Where everything stands, as values for pages, terminals and programs; pure."""
