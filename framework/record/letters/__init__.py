"""Dead letters: as rows, as people read them, and on their way back."""
