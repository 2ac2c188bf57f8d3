"""What to learn after pre-training."""
