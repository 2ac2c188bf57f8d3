"""Tests of bertsmith/recipes."""
