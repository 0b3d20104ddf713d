"""Measure the splitter on real large files, beside other splitters, by a judge that shares nothing with it.

A cut is bad when it stands inside a unit that would have fitted in a segment, between a comment (decorator, attribute)
and what it documents, between a head and its body, or right before a closing bracket.
"""
