"""Source for `python -c` that extracts the readable text of an HTML page in a separate process.

The process gets little time and memory, and no access to the network or to keys, since the page may be hostile.
"""

import html
import re
import resource
import sys

SECONDS, MEMORY, OUTPUT = 20, 1 << 31, 1 << 22
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{1,500})", re.IGNORECASE)


def main(url: str) -> None:
    """Read a page in UTF-8 from standard input, and write its title and text as Markdown to standard output."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))  # of any file
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from trafilatura import extract, html2txt, load_html

    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    tree = load_html(page)
    if tree is None:
        return
    tree.make_links_absolute(url, handle_failures="ignore")
    text = extract(
        tree,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    title = _TITLE.search(page[:200_000])
    lines = [" ".join(html.unescape(title[1]).split()), ""] if title else []
    sys.stdout.buffer.write("\n".join([*lines, text or html2txt(page)]).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(sys.argv[1])
