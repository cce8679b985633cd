"""How far two answers to the same question lie apart: pure."""

import math
from collections.abc import Sequence

from soak.facts import Apart, Logprob, Observation

_ROUNDING = 1e-3
"""How far above 0 rounding may bring a log probability; what is farther above is none."""
_SUM_MAX = 1.01
"""What rounding may make of probabilities that add up to 1."""
_UNTOLD_LOGPROB = -9999.0
"""What stands for none told, and for as good as impossible: servers and JSON tell the two no better."""


def apart(one: Observation, other: Observation, limit: int = 64) -> Apart:
    """
    Return how far two answers lie apart, over at most `limit` tokens up to the first that differs.

    The mass is the total variation distance of the next token's distribution, from below: of a token that one list
    does not name it is only known that it is no likelier there than the last one named.
    """
    same_text = _said(one) == _said(other)
    same_tokens = None
    if one.token_ids is not None and other.token_ids is not None:
        same_tokens = one.token_ids == other.token_ids
    first, second = one.logprobs or (), other.logprobs or ()
    shared = _shared(first, second, limit)
    masses = [_mass(first[at], second[at]) for at in range(shared)]
    diverges = _diverges(first, second, limit)
    if not masses:
        return Apart(same_text=same_text, same_tokens=same_tokens)
    worst = max(range(shared), key=masses.__getitem__)
    return Apart(
        same_text=same_text,
        same_tokens=same_tokens,
        compared=shared,
        mass=masses[worst],
        mass_at=worst,
        first_mass=masses[0],
        logprob=_farthest(first[0], second[0]),
        diverges_at=diverges,
        gaps=None if diverges is None else (_gap(first, second, diverges), _gap(second, first, diverges)),
        took=None if diverges is None else (first[diverges].token, second[diverges].token),
    )


def reach(drawn: Logprob, other: str) -> float:
    """
    Return how far (nats) a server's token lies at least above `other`, which its list leaves out: above all it names.

    0 where the list cannot be believed, or names `other` after all and does not tell its log probability.
    """
    believed = _believed(drawn)
    listed = [believed[token] for token, _ in drawn.top if token in believed]
    if drawn.token not in believed or not listed or any(token == other for token, _ in drawn.top):
        return 0.0
    return believed[drawn.token] - min(listed)


def _believed(drawn: Logprob) -> dict[str, float]:
    """Return the log probabilities that are told, by token; none of a list that cannot be one of log probabilities."""
    named = {**dict(drawn.top), drawn.token: drawn.logprob}
    listed = [logprob for _, logprob in drawn.top]
    whole = listed if any(token == drawn.token for token, _ in drawn.top) else [*listed, drawn.logprob]
    if any(math.isnan(logprob) or logprob > _ROUNDING for logprob in (*listed, drawn.logprob)):
        return {}
    if sum(math.exp(min(0.0, logprob)) for logprob in whole) > _SUM_MAX:
        return {}
    return {token: logprob for token, logprob in named.items() if logprob > _UNTOLD_LOGPROB}


def _said(answer: Observation) -> tuple[object, ...]:
    """Return all the text of an answer: what it calls is said too."""
    calls = tuple((call.name, call.arguments) for call in answer.tool_calls)
    return (answer.content, answer.reasoning, calls)


def _shared(first: Sequence[Logprob], second: Sequence[Logprob], limit: int) -> int:
    """Return how many tokens were drawn after the same text: all up to and with the first that differs."""
    diverges = _diverges(first, second, limit)
    size = min(len(first), len(second), limit)
    return size if diverges is None else min(size, diverges + 1)


def _diverges(first: Sequence[Logprob], second: Sequence[Logprob], limit: int) -> int | None:
    for at, (a, b) in enumerate(zip(first[:limit], second[:limit], strict=False)):
        if a.token != b.token:
            return at
    return None


def _mass(a: Logprob, b: Logprob) -> float:
    p, q = _named(a), _named(b)
    below_p, below_q = _bound(a), _bound(b)
    more = sum(max(0.0, share - q.get(token, below_q)) for token, share in p.items())
    less = sum(max(0.0, share - p.get(token, below_p)) for token, share in q.items())
    return min(1.0, max(more, less))  # both are bounds from below of the one distance


def _bound(drawn: Logprob) -> float:
    """Return what a token that a list does not name may have at most; the drawn one may stand below the list's end."""
    others = [_share(logprob) for token, logprob in drawn.top if token != drawn.token]
    return min(others) if others else 1.0 - _share(drawn.logprob)


def _named(drawn: Logprob) -> dict[str, float]:
    """Return the probabilities of the tokens that a list names; ids that share one text are summed."""
    shares: dict[str, float] = {}
    for token, logprob in drawn.top:
        shares[token] = shares.get(token, 0.0) + _share(logprob)
    if drawn.token not in shares:
        shares[drawn.token] = _share(drawn.logprob)
    return shares


def _share(logprob: float) -> float:
    return math.exp(min(0.0, logprob)) if math.isfinite(logprob) else 0.0


def _farthest(a: Logprob, b: Logprob) -> float | None:
    others = dict(b.top)
    gaps = [abs(logprob - others[token]) for token, logprob in a.top if token in others]
    finite = [gap for gap in gaps if math.isfinite(gap)]
    return max(finite, default=None)


def _gap(mine: Sequence[Logprob], theirs: Sequence[Logprob], at: int) -> float | None:
    """Return by how much my token lies above theirs in my own list, None where it does not tell."""
    believed = _believed(mine[at])
    own, other = believed.get(mine[at].token), believed.get(theirs[at].token)
    return None if own is None or other is None else own - other
