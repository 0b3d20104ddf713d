"""Split large files at natural boundaries, and join the segments again. Read splitter.py first."""
