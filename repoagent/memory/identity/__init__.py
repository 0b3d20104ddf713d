"""Which file is which: device and inode are keys, content decides, and every re-keying is written down."""
