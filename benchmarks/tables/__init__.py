"""Tables of docs/results.md, made of the rows in benchmarks/results that they name."""
