"""What `bertsmith explain` is made of."""
