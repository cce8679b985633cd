"""Where templates come from."""

from pathlib import Path

from quill.errors import TemplateNotFound
from quill.parser import Parser


class Template:
    """A parsed template."""

    def __init__(self, source, name="<string>", environment=None):
        self.name = name
        self.nodes = Parser(source, name, environment).parse()

    def render(self, **variables):
        """Return the text of the template with these variables."""
        out, scope = [], dict(variables)
        for node in self.nodes:
            node.render(scope, out)
        return "".join(out)


class Environment:
    """Templates of a folder, or of a dictionary of sources; each is parsed once."""

    def __init__(self, folder=None, sources=None):
        self.folder = None if folder is None else Path(folder)
        self.sources = sources or {}
        self._templates = {}

    def from_string(self, source):
        return Template(source, environment=self)

    def get(self, name, asked_by=None):
        """Return the template called `name`; raises TemplateNotFound with the place of the include."""
        if name not in self._templates:
            self._templates[name] = Template(self._source(name, asked_by), name, self)
        return self._templates[name]

    def render(self, name, **variables):
        return self.get(name).render(**variables)

    def _source(self, name, asked_by):
        if name in self.sources:
            return self.sources[name]
        path = None if self.folder is None else self.folder / str(name)
        if path is None or ".." in Path(str(name)).parts or not path.is_file():
            place = ("<environment>", None) if asked_by is None else (asked_by.name, asked_by.line)
            raise TemplateNotFound(f"no template {name!r}", *place)
        return path.read_text(encoding="utf-8")
