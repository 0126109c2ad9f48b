"""What a review of a file asks beside its correctness: who must see it."""
