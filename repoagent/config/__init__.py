"""Options, their types and defaults, and the layers that set them. Read options.py first."""
