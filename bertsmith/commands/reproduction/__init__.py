"""What `bertsmith reproduce` is made of."""
