"""What is live now, for `top`, page and REST."""
