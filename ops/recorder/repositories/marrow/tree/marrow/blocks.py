"""Lines to blocks."""

import re

from marrow.nodes import Code, Document, Heading, Item, List, Paragraph, Quote, Rule
from marrow.tables import is_table, parse_table

HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
UNDERLINE = re.compile(r"(=+|-+)[ \t]*$")
RULE = re.compile(r"[ ]{0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
FENCE = re.compile(r"([ ]{0,3})(`{3,}|~{3,})[ \t]*([^`]*)$")
BULLET = re.compile(r"([ ]*)([-*+])([ ]+|$)")
NUMBER = re.compile(r"([ ]*)(\d{1,9})([.)])([ ]+|$)")
DEFINITION = re.compile(r"[ ]{0,3}\[([^\]]+)\]:[ \t]*(\S+)(?:[ \t]+\"([^\"]*)\")?[ \t]*$")


def parse(text):
    """Return the Document of a Markdown text."""
    lines = text.expandtabs(4).replace("\r\n", "\n").split("\n")
    document = Document([])
    document.blocks = parse_blocks(lines, document.links)
    _give_ids(document.blocks, {})
    return document


def parse_blocks(lines, links):
    """Return the blocks of some lines; definitions of links are put into `links`."""
    blocks, at = [], 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        for take in (_fence, _indented, _rule, _heading, _quote, _list, _table, _definition):
            block, after = take(lines, at, links)
            if after > at:
                break
        else:
            block, after = _paragraph(lines, at)
        if block is not None:
            blocks.append(block)
        at = after
    return blocks


def _fence(lines, at, links):
    opened = FENCE.match(lines[at])
    if opened is None:
        return None, at
    indent, marks = len(opened[1]), opened[2]
    body, end = [], at + 1
    while end < len(lines):
        closed = lines[end].strip()
        if closed.startswith(marks) and set(closed) == {marks[0]}:
            end += 1
            break
        body.append(_unindent(lines[end], indent))
        end += 1
    return Code("\n".join(body), opened[3].strip()), end


def _indented(lines, at, links):
    end, last = at, at
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
        if lines[end - 1].strip():
            last = end
    if last == at:
        return None, at
    return Code("\n".join(_unindent(line, 4) for line in lines[at:last])), last


def _rule(lines, at, links):
    return (Rule(), at + 1) if RULE.match(lines[at]) else (None, at)


def _heading(lines, at, links):
    found = HEADING.match(lines[at])
    if found:
        return Heading(len(found[1]), (found[2] or "").strip()), at + 1
    return None, at


def _quote(lines, at, links):
    end, inner = at, []
    while end < len(lines) and lines[end].lstrip().startswith(">"):
        inner.append(re.sub(r"^[ ]{0,3}> ?", "", lines[end]))
        end += 1
    return (Quote(parse_blocks(inner, links)), end) if inner else (None, at)


def _list(lines, at, links):
    """Take a list: items with markers of one kind at one indentation, and what is indented below them."""
    first = marker(lines[at])
    if first is None:
        return None, at
    items, tight, blank = [], True, False
    while at < len(lines):
        here = marker(lines[at])
        if here is None or here.kind != first.kind or here.indent != first.indent:
            break
        body, at, blank_after = _item(lines, at, here)
        tight = tight and not (blank and body)
        blank = blank_after
        items.append(Item(parse_blocks(body, links)))
        tight = tight and not _has_blank_between(body)
    return List(items, first.number, tight), at


def _item(lines, at, here):
    """Return the lines of one item without its indentation, the line after it, and whether a blank line ended it."""
    body, end, blank = [lines[at][here.width :]], at + 1, False
    while end < len(lines):
        line = lines[end]
        if not line.strip():
            blank = True
            body.append("")
        elif _indent(line) >= 4:
            body.append(_unindent(line, 4))
            blank = False
        elif blank or marker(line) or HEADING.match(line) or FENCE.match(line):
            break
        else:
            body.append(line.lstrip())
        end += 1
    while body and not body[-1]:
        body.pop()
    return body, end, blank


def _has_blank_between(body):
    """Whether two blocks directly inside an item are separated by a blank line."""
    return any(not line for line in body) and not any(marker(line) for line in body[1:])


class Marker:
    """The marker of a list item: kind "-", "*", "+", "." or ")", its number, its indentation, and where its text begins."""

    def __init__(self, kind, number, indent, width):
        self.kind, self.number, self.indent, self.width = kind, number, indent, width


def marker(line):
    """Return the Marker that a line begins with, or None."""
    if RULE.match(line):
        return None
    found = BULLET.match(line)
    if found:
        return Marker(found[2], None, len(found[1]), found.end() if found[3] else found.end() + 1)
    found = NUMBER.match(line)
    if found:
        return Marker(found[3], int(found[2]), len(found[1]), found.end() if found[4] else found.end() + 1)
    return None


def _table(lines, at, links):
    return parse_table(lines, at) if is_table(lines, at) else (None, at)


def _definition(lines, at, links):
    found = DEFINITION.match(lines[at])
    if found is None:
        return None, at
    links.setdefault(found[1].casefold(), (found[2].strip("<>"), found[3]))
    return None, at + 1


def _paragraph(lines, at):
    """Take lines up to a blank one or one that begins another block; an underline makes it a heading."""
    end = at
    while end < len(lines) and lines[end].strip():
        if end > at:
            underline = UNDERLINE.match(lines[end])
            if underline:
                text = "\n".join(line.strip() for line in lines[at:end])
                return Heading(1 if underline[1][0] == "=" else 2, text), end + 1
            if any(pattern.match(lines[end]) for pattern in (HEADING, FENCE, RULE)) or lines[end].startswith(">") or marker(lines[end]):
                break
        end += 1
    return Paragraph("\n".join(line.lstrip() for line in lines[at:end])), end


def _indent(line):
    return len(line) - len(line.lstrip(" "))


def _unindent(line, columns):
    """Return a line without up to `columns` leading spaces."""
    return line[min(columns, _indent(line)) :]


def _give_ids(blocks, seen):
    """Give each heading an id made from its text, different from all before."""
    for block in blocks:
        if isinstance(block, Heading):
            base = re.sub(r"[^\w]+", "-", block.text.casefold()).strip("-") or "section"
            seen[base] = seen.get(base, 0) + 1
            block.id = base if seen[base] == 1 else f"{base}-{seen[base]}"
        elif isinstance(block, Quote):
            _give_ids(block.blocks, seen)
        elif isinstance(block, List):
            for item in block.items:
                _give_ids(item.blocks, seen)
