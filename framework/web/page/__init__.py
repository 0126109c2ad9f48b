"""The page, as HTML."""
