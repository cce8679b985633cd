"""Counting: who must be asked before a request is sent that can make a server generate or prefill."""

from typing import Protocol


class Meter(Protocol):
    """
    Counts the requests that a target is sent: chat answers, completions and scores, and each repeated attempt of one.

    Not counted is what makes it compute no token: models, version, health, metrics, tokenize and detokenize.
    """

    def send(self) -> None:
        """Count one request about to be sent; raises `UsageError`, and counts nothing, where none may be."""
        ...

    def again(self) -> bool:
        """Whether the request that just failed may be sent once more; counts it if so."""
        ...
