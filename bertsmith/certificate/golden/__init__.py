"""Golden values (.json), and the restated original that they were made with (`make`)."""
