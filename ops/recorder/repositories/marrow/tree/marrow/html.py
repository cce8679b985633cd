"""Blocks to HTML."""

from marrow.inline import Inline, escape
from marrow.nodes import Code, Heading, List, Paragraph, Quote, Rule, Table


def render(document):
    """Return the HTML of a document, one block a line."""
    return "".join(_block(block, document.links) for block in document.blocks)


def _block(block, links):
    if isinstance(block, Heading):
        return f'<h{block.level} id="{escape(block.id)}">{_inline(block.text, links)}</h{block.level}>\n'
    if isinstance(block, Paragraph):
        return f"<p>{_inline(block.text, links)}</p>\n"
    if isinstance(block, Code):
        language = f' class="language-{escape(block.language.split()[0])}"' if block.language else ""
        return f"<pre><code{language}>{escape(block.text)}\n</code></pre>\n"
    if isinstance(block, Quote):
        return f"<blockquote>\n{''.join(_block(inner, links) for inner in block.blocks)}</blockquote>\n"
    if isinstance(block, Rule):
        return "<hr>\n"
    if isinstance(block, List):
        return _list(block, links)
    if isinstance(block, Table):
        return _table(block, links)
    raise TypeError(f"no block: {block!r}")


def _inline(text, links):
    return Inline(links).render(text)


def _list(block, links):
    tag = "ul" if block.start is None else "ol"
    start = f' start="{block.start}"' if block.start not in (None, 1) else ""
    items = "".join(f"<li>{_item(item, block.tight, links)}</li>\n" for item in block.items)
    return f"<{tag}{start}>\n{items}</{tag}>\n"


def _item(item, tight, links):
    """Return the inside of an item; in a tight list a paragraph stands without <p>."""
    parts = []
    for number, block in enumerate(item.blocks):
        if tight and isinstance(block, Paragraph):
            parts.append(_inline(block.text, links) + ("\n" if number + 1 < len(item.blocks) else ""))
        else:
            parts.append(_block(block, links))
    return "".join(parts)


def _table(table, links):
    styles = [f' style="text-align: {alignment}"' if alignment else "" for alignment in table.alignments]
    head = "".join(f"<th{style}>{_inline(cell, links)}</th>" for style, cell in zip(styles, table.header))
    rows = [
        "<tr>" + "".join(f"<td{style}>{_inline(cell, links)}</td>" for style, cell in zip(styles, row)) + "</tr>\n" for row in table.rows
    ]
    return f"<table>\n<tr>{head}</tr>\n{''.join(rows)}</table>\n"
