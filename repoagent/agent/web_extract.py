"""Source for `python -c` that extracts the readable text of an HTML page in a separate process.

The process gets little time and memory, and no access to the network or to keys, since the page may be hostile.
"""

import resource
import sys

SECONDS, MEMORY, OUTPUT = 20, 1 << 31, 1 << 22


def main(url: str, codec: str) -> None:
    """Read a page from standard input, and write its title and text to standard output, as Markdown in UTF-8. If
    `codec` is empty, the encoding is guessed."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))  # of any file
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from trafilatura import extract, html2txt, load_html

    data = sys.stdin.buffer.read()
    page = data.decode(codec, "replace") if codec else data
    tree = load_html(page)
    if tree is None:
        return
    tree.make_links_absolute(url, handle_failures="ignore")
    title = " ".join((tree.findtext(".//title") or "").split())[:500]
    text = extract(
        tree,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    lines = [title, ""] if title else []
    sys.stdout.buffer.write("\n".join([*lines, text or html2txt(page)]).encode("utf-8", "replace"))


if __name__ == "__main__":
    main(*sys.argv[1:3])
