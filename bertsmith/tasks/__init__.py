"""What a model can be asked, pre-trained or fine-tuned, and what it can learn afterwards."""
