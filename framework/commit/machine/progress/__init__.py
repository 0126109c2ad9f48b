"""How far each table is: recorded progress, chains of batches, the prefix that one commit takes."""
