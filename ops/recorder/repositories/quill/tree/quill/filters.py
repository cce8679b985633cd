"""Filters: functions of a value and arguments. `keeps_safe` marks those that cannot introduce markup."""

import datetime

from quill.escaping import Safe, escape

FILTERS = {}


def filter_function(name=None, keeps_safe=False):
    """Register a filter; with `keeps_safe` a Safe value stays Safe."""

    def register(function):
        def wrapped(value, *arguments):
            result = function(value, *arguments)
            return Safe(result) if keeps_safe and isinstance(value, Safe) else result

        FILTERS[name or function.__name__] = wrapped
        return function

    return register


@filter_function(keeps_safe=True)
def upper(value):
    return str(value).upper()


@filter_function(keeps_safe=True)
def lower(value):
    return str(value).lower()


@filter_function(keeps_safe=True)
def title(value):
    return str(value).title()


@filter_function(keeps_safe=True)
def trim(value):
    return str(value).strip()


@filter_function()
def safe(value):
    return Safe(value)


@filter_function("escape")
def escape_filter(value):
    return escape(value)


@filter_function()
def default(value, replacement=""):
    return value or replacement


@filter_function()
def length(value):
    return len(value)


@filter_function()
def join(values, separator=""):
    """Join values with a separator; unsafe parts are escaped, so the result is safe."""
    return Safe(escape(separator).join(escape(value) for value in values))


@filter_function()
def first(values):
    return next(iter(values), "")


@filter_function()
def last(values):
    return list(values)[-1] if len(values) else ""


@filter_function()
def sort(values, key=None):
    return sorted(values, key=(lambda value: value[key]) if key else None)


@filter_function()
def reverse(values):
    return list(reversed(values))


@filter_function()
def replace(value, old, new):
    return str(value).replace(old, new)


@filter_function("round")
def round_filter(value, digits=0):
    return f"{value:.{digits}f}"


@filter_function()
def date(value, form="%d %B %Y"):
    if isinstance(value, str):
        value = datetime.date.fromisoformat(value)
    return value.strftime(form)


@filter_function()
def truncate(value, limit=80):
    """Cut at the last space before the limit and add an ellipsis."""
    text = str(value)
    if len(text) <= limit:
        return text
    return text[:limit].rsplit(" ", 1)[0] + "…"


@filter_function()
def linebreaks(value):
    """Escape and turn line ends into <br>."""
    return Safe(escape(value).replace("\n", "<br>\n"))
