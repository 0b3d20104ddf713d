"""`repoagent outline`: what files define and where."""
