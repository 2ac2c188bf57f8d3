"""A corpus, labelled examples or texts -> packed batches."""
