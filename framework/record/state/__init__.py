"""What is gathered while a block is processed."""
