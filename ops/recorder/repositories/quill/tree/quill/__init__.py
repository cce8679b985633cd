"""A tiny template engine: text with tags in, text out."""

from quill.environment import Environment, Template
from quill.errors import TemplateError, TemplateSyntaxError
from quill.escaping import Safe, escape

__all__ = ["Environment", "Safe", "Template", "TemplateError", "TemplateSyntaxError", "escape"]
