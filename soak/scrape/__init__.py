"""
Engine metrics: a /metrics page → one sample in our own names; what takes samples through a run and around its turns;
and what an engine tells of its settings.

May touch: the page's text, handed in; `scrape` is the only module that knows metric names. It opens no connection and
writes no file: the caller gives it `fetch` and `write`.
"""

from soak.scrape.lone import Crowd, LoneTurns
from soak.scrape.metrics import MAX_PAGE_CHARS, parse_metrics
from soak.scrape.polling import Poll, poll
from soak.scrape.reader import Reader
from soak.scrape.settings import settings_of_llama, settings_of_sglang, settings_of_vllm, settings_on_page

__all__ = [
    "MAX_PAGE_CHARS",
    "Crowd",
    "LoneTurns",
    "Poll",
    "Reader",
    "parse_metrics",
    "poll",
    "settings_of_llama",
    "settings_of_sglang",
    "settings_of_vllm",
    "settings_on_page",
]
