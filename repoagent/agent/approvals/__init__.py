"""Decide which actions may run: read policy.py first, then rules.py and shell_parser.py."""
