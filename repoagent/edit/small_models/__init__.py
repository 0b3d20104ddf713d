"""Help for small models: excerpts instead of whole files, and repairs of what they typically get wrong."""
