"""Pipelines on a cluster: packages, submissions, applications, rollouts."""
