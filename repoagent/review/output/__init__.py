"""Output formats of a review: text, JSON, SARIF, CI annotations, Markdown."""
