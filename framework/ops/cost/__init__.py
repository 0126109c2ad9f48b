"""What a pipeline costs in a month at today's rates."""
