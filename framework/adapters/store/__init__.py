"""The one way to an object store: files whose requests are counted."""
