"""No model: a person carries the prompt to any chat, and its reply back."""
