"""Find the place in a file that a hunk is about, or refuse. Read choose.py first."""
