"""Fine-tuning beside `transformers`: scores over seeds, and speed."""
