"""How a change of a run gets into the files, and from there into a commit, or is taken back."""
