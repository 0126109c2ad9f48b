"""The web page of operations and its REST surface; knows no engine, no broker and no catalog."""
