"""repoagent: a git-native repository editing assistant."""

__version__ = "0.1.0"
