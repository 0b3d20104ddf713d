"""Measure the splitter and others on real large files, with a judge that shares no rules with them.

A cut is bad if it is inside a unit that would have fitted in a segment, between a comment, decorator or attribute and
its target, between a head and its body, or right before a closing bracket.
"""
