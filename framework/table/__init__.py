"""How tables are made and how they change. Pure."""
