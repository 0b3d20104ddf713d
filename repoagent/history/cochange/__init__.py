"""Which files change together with others, out of a `View` of the history."""
