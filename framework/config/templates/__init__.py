"""Templates: where they are found, how they are rendered, and what they may not do."""
