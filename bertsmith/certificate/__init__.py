"""What `bertsmith verify` checks: this installation and one model, against the original."""
