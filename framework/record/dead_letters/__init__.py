"""Dead letters: written, viewed, replayed."""
