"""Find the place of each hunk in a file, or refuse. Read choose.py first, then candidates.py, exact.py and fuzzy.py."""
