"""Experiments on disk: where their parts lie, what has been found, and what that says."""
