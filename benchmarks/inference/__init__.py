"""Answers a second, beside every known way to run a BERT on a CPU."""
