"""`repoagent ask`: a prompt and files in, text out."""
