"""A person's own labelled files -> examples of any task."""
