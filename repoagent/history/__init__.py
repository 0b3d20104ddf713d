"""The history of a repository: commits, authors, and files that change together. Read log.py and neighbors.py first."""
