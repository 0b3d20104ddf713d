"""Confine the model's commands with Landlock, mounts and seccomp. Read policy.py first, then confine.py."""
