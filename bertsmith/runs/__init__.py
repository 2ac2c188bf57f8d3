"""A pre-training run: its plan, its directory, and what happens while it trains."""
