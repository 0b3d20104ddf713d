"""Where a symbol is defined and used. Read find.py first."""
