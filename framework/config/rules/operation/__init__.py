"""Rules about what runs for years: how tables are maintained, and what their readers are promised."""
