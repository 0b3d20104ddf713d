"""Review by a model: prompt, chunks, claims and their verification. Read review.py first."""
