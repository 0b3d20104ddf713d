"""Decide which actions may run. Read policy.py first, then rules.py and shell_parser.py."""
