"""`repoagent summarize`: what a file is for."""
