"""The verbs: what bertsmith can do, one file a command."""
