"""A packed batch -> hidden states -> losses."""
