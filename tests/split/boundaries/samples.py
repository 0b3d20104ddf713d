"""Code in several languages, of one kilobyte or two each."""

from __future__ import annotations

_PYTHON = '''"""A module."""

import os


# What this is about.
@decorated
def first(a, b):
    """Say it."""
    if a:
        return b

    # of the loop
    for n in range(10):
        print(n)
    return None


class Thing(Base):
    """A thing."""

    size = 1

    @property
    def name(self):
        return self._name

    def other(self):
        try:
            work()
        except ValueError:
            pass
        else:
            done()
'''
_C = """/* A licence
 * of two lines. */
#ifndef A_H
#define A_H
#include <stdio.h>

/** Adds. */
int add(int a, int b)
{
    if (a) {
        b++;
    } else {
        b--;
    }

    switch (b) {
    case 1:
    case 2:
        return 3;
    default:
        break;
    }
    return a + b;
}

struct point {
    int x; /* across */
    int y;
};
#endif
"""
_HTML = """<!doctype html>
<html>
<head><title>A</title>
<script>
// what it does
function go(a) {
  return a;
}
</script>
</head>
<body>
<h1>Title</h1>
<p>One
<p>Two <b>bold</b> words
<ul>
<li>a
<li>b
</ul>
</body>
</html>
"""
_MARKDOWN = """# Title

Words.

## Part

- one
- two

```python
def f():
    return 1
```

Under
-----

| a | b |
|---|---|
| 1 | 2 |
"""
_YAML = """# about a
a:
  b: 1
  c:
    - x
    - y
# about d
d: |
  text

  more
"""
_JSON = '{\n  "a": [1, 2, {"b": null}],\n  "c": {\n    "d": "e",\n    "f": [\n      1\n    ]\n  }\n}\n'
_XML = '<?xml version="1.0"?>\n<!-- c -->\n<a>\n  <b x="1">t</b>\n  <c>\n    <d/>\n  </c>\n</a>\n'
_JS = """// head
import a from "a";

/** Doc. */
export class A {
  /** One. */
  one() {
    return `text ${a}`;
  }

  two() {}
}

const f = (x) => {
  if (x) {
    return 1;
  } else {
    return 2;
  }
};
"""
_BASH = """#!/bin/sh
# says
say() {
    if [ -n "$1" ]; then
        echo "$1"
    else
        cat <<END
text
END
    fi
}

case $1 in
a) say a ;;
*) say b ;;
esac
"""

SAMPLES: dict[str, bytes] = {
    "a.py": _PYTHON.encode(),
    "a.c": _C.encode(),
    "a.cpp": _C.encode(),
    "a.html": _HTML.encode(),
    "a.md": _MARKDOWN.encode(),
    "a.yaml": _YAML.encode(),
    "a.json": _JSON.encode(),
    "a.xml": _XML.encode(),
    "a.js": _JS.encode(),
    "a.ts": _JS.encode(),
    "a.sh": _BASH.encode(),
    "a.txt": _MARKDOWN.encode(),
}
