"""Find the location of each hunk in a file, or refuse. Read choose.py first, then exact.py and fuzzy.py."""
