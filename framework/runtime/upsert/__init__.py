"""What a run keeps for upserts: heads, key indexes, deleted keys."""
