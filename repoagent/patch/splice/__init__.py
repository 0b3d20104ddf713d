"""Placed hunks, or a whole text -> the lines of the file that change; every other byte stays.

Added lines get the file's indentation (`indent`) and its spelling of what they take up (`carry`).
"""
