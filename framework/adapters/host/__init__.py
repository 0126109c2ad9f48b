"""The machine: processes, memory, Java, private files, listeners, clocks, and the failpoints of tests."""
