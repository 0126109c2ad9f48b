"""What makes a snapshot: appends, upserts, replaced files, expiry."""
