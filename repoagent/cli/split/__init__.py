"""`repoagent split`: a file as segments, and edited segments as a commit of their source."""
