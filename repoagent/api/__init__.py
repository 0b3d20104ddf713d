"""The Python library: `from repoagent import Repository`. Read repository.py first."""
