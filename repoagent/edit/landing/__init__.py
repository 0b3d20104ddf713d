"""The way of a change from a proposal to a commit: asked about, written, checked, committed, or nothing at all."""
