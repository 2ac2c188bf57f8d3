"""The cost of bertsmith as batches, texts, models and corpora grow."""
