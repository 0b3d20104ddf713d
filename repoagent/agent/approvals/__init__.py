"""Decide which actions may run: read policy.py first, then rules.py, read_only_commands.py and shell_parser.py."""
