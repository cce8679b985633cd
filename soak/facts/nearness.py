"""How far two answers to the same question lie apart."""

import msgspec


class Apart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Two answers compared token by token up to the first place where they differ.

    `same_text`, `same_tokens`: whole answers (text with the calls of tools); tokens None where the server gave no
    ids. `compared` tokens could be held against each other with log probabilities, the first of them included. `mass`
    is the largest share (0 to 1) of the next token's probability that lies elsewhere in the other answer, over those
    tokens, at least (what the two lists of top tokens prove), and `mass_at` its token; `first_mass` that of the first
    token. `logprob` is the largest difference (nats) over the tokens that both lists of the first token name.
    `diverges_at` is the first token that differs, and `gaps` how far (nats) each answer's token there lies above what
    the other one took, in its own list; None where the list does not tell it. `took` are the two tokens as text.
    """

    same_text: bool
    same_tokens: bool | None = None
    compared: int = 0
    mass: float | None = None
    mass_at: int | None = None
    first_mass: float | None = None
    logprob: float | None = None
    diverges_at: int | None = None
    gaps: tuple[float | None, float | None] | None = None
    took: tuple[str, str] | None = None


class CacheProbe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One question asked with what the cache held and asked cold: `cached_tokens` of `prompt_tokens` came from the cache
    (None: not told). `verdict`: fault, numerics (apart, but no farther than noise goes), same, or untold (answers that
    differ where nothing tells noise from a fault).
    """

    kind: str
    case: str
    messages: int
    verdict: str
    apart: Apart
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    text: str = ""


class CacheFound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What the cache probes found: `result` is "cache fault", "numerics", "nothing found" or "undecided".

    `floor` is the largest mass by which cold answers to the same question lay apart, over `floor_pairs` pairs; `bar`
    the mass from which a probe is a fault. `hits` probes really met the cache. `bound` is the upper 95 % bound of the
    share of `conversations` that fail, where none did: probes of one share its blocks and count as one. `shortest` is
    the fewest messages with which it still fails.
    """

    schema: str = "soak.probe/1"
    probe: str = "cache"
    case: str
    result: str
    text: str
    probes: tuple[CacheProbe, ...]
    hits: int
    floor: float | None
    floor_pairs: int
    bar: float
    bound: float | None = None
    conversations: int
    shortest: int | None = None
    requests: int = 0
