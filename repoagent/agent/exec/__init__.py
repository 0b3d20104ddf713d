"""Run shell commands for the model: processes, limits, output and exit codes. Read tools.py first."""
