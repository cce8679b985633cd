"""A page taken apart, as a browser would read it."""

from html.parser import HTMLParser


class Outline(HTMLParser):
    """The tags of a page, its attributes, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, white space collapsed."""
        return " ".join(" ".join(self.texts).split())

    def values(self, *names: str) -> set[str]:
        """The values of the attributes of these names."""
        return {value or "" for _, attrs in self.tags for name, value in attrs if name in names}
