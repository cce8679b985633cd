"""
Engine metrics: a /metrics page → one sample in our own names; a loop that takes samples through a run.

May touch: the page's text, handed in; `scrape` is the only module that knows metric names. It opens no connection and
writes no file: the caller gives it `fetch` and `write`.
"""

from soak.scrape.metrics import MAX_PAGE_CHARS, parse_metrics
from soak.scrape.polling import Poll, poll

__all__ = ["MAX_PAGE_CHARS", "Poll", "parse_metrics", "poll"]
