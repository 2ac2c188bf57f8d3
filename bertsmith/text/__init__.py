"""Characters -> token ids."""
