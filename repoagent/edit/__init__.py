"""`repoagent edit` and `apply`: from a request to one commit. Read edit.py first."""
