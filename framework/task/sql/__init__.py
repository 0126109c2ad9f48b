"""What a task does for `transform.sql`."""
