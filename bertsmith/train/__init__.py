"""Losses -> weights."""
