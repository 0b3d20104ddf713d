"""Measure the splitter and others on real large files, by a judge that shares nothing with it.

A cut is bad when it is inside a unit that would have fitted in a segment, between a comment (decorator, attribute)
and what it documents, between a head and its body, or right before a closing bracket.
"""
