"""Verbs that run pipelines and the coordinator."""
