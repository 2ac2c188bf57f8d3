"""Texts -> vectors on disk: which layers, of what, in which format."""
