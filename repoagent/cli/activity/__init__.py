"""`repoagent activity`: what was done in this repository, and what it cost."""
