"""What data may do to tables: the words of `evolve:` and what goes with them are understood in this folder and nowhere
else."""
