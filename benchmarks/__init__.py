"""Side by side with peers, in one run; rows under `benchmarks/results/`."""
