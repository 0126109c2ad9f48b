"""Codes of files: YAML, shape, references, rules, templates, tests."""
