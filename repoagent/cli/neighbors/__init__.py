"""`repoagent neighbors`: which files change with some files."""
