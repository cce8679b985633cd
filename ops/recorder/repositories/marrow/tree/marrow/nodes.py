"""Blocks of a document. Text inside of them is still Markdown; `inline` deals with it when a block is rendered."""

from dataclasses import dataclass, field


@dataclass
class Document:
    blocks: list
    links: dict = field(default_factory=dict)


@dataclass
class Heading:
    level: int
    text: str
    id: str = ""


@dataclass
class Paragraph:
    text: str


@dataclass
class Code:
    text: str
    language: str = ""


@dataclass
class Quote:
    blocks: list


@dataclass
class Rule:
    pass


@dataclass
class Item:
    blocks: list


@dataclass
class List:
    """`start` is None for a list without numbers. A tight list shows its paragraphs without <p>."""

    items: list
    start: int | None = None
    tight: bool = True


@dataclass
class Table:
    """`alignments` are "left", "right", "center" or None, one for each column of the header."""

    header: list
    alignments: list
    rows: list
