"""Which commands may run without asking. Read policy.py first, then rules.py and read_only_commands.py."""
