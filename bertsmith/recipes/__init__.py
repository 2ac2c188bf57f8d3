"""The values: what we chose, run by run."""
