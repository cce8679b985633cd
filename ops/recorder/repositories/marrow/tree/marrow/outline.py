"""The headings of a document as an indented list."""

from marrow.nodes import Heading


def outline(document):
    """Return one line per heading: indentation by level, text, id."""
    return "".join(
        f"{'  ' * (block.level - 1)}{' '.join(block.text.split())} #{block.id}\n" for block in document.blocks if isinstance(block, Heading)
    )
