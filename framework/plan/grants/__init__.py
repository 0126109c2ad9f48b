"""What each system must allow a run, computed from its plans: topics, objects of a store, catalogs and their databases."""
