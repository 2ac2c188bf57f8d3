"""Runs of pre-training, fine-tuning, searches and experiments, from plan to report."""
