"""Where labelled examples come from: a file for each kind."""
