"""Which memory belongs to which file: path, device and inode, content. Read resolve.py first."""
