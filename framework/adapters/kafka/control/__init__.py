"""The control topic: its records, its transactions, and the leadership of its coordinator."""
