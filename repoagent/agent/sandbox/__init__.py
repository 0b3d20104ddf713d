"""Confine commands of the model with Landlock, mounts and seccomp. Read policy.py first, then backends.py."""
