"""Patches in the formats that models write: parse, locate, apply, verify. Read model.py first, then apply.py."""
