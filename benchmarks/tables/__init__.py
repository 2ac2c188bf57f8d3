"""Tables of docs/results.md, docs/answers.md: made of the rows in benchmarks/results they name."""
