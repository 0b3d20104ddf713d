"""`repoagent run`: a whole task, from the request to the commit. Read session.py first, then toolset.py."""
