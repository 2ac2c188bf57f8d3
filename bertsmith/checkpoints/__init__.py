"""Weights on disk, in the Hugging Face layout."""
