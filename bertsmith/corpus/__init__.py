"""Sentences -> a tokenised corpus on disk, and back."""
