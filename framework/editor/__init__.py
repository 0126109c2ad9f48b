"""What an editor shows of floe's files while they are written."""
