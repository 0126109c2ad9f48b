"""The command `floe`: one module for each verb."""
