"""`repoagent text`: a prompt and files in, text out."""
