"""A corpus -> packed batches."""
