"""
Every threshold of the classifiers, in one place, with its reason. A scenario overrides them by name (`classify:`).

"Tokens" are token ids where the server tells them, else text pieces (about one word, space or symbol each; while
streaming without the single spaces).
"""

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All thresholds. The comment above each says what it decides and why it has that value."""

    # -- streaming: when a loop is certain enough to tell, and to close the stream ---------------------------
    # Exactly repeated tokens before a loop is certain. 256 is reached by honest zero arrays; 512 by few, and those are
    # data, for which `certain_data_factor` asks for more.
    certain_run_tokens: float = 512
    # Copies that such a run must hold: three copies of a long block occur in honest code, four hardly.
    certain_copies: float = 4
    # Net redundant tokens (repeats of an 8-gram of the last 2048 tokens, minus 5.67 per novel one) before a loop
    # without a fixed period is certain. The drift is upwards only above 85 % redundancy.
    certain_redundant_tokens: float = 1024
    # Data (numbers, symbols, one word a row) may be asked for: this many times the evidence.
    certain_data_factor: float = 4

    # -- loops that run into an open end (length, no finish, cut) --------------------------------------------
    # Copies of the unit. Three copies of a sentence occur in honest text; four in a row up to the limit do not.
    open_copies: float = 4
    # Repeated tokens, at least; a budget of 256 tokens must still show its loop.
    open_run_tokens: float = 48
    # ... and at least this share of the output, up to `open_run_cap_tokens`: a table's last rows are no loop.
    open_share: float = 0.10
    open_run_cap_tokens: float = 256
    # Data cut by the limit: the share of the output it must cover, and its copies, to count as runaway.
    open_data_share: float = 0.5
    open_data_copies: float = 32
    # Rows that differ only in a counter, cut by the limit: copies needed where the row has words.
    counter_copies: float = 200

    # -- loops in an answer that ended by itself (stop, tool_calls) ------------------------------------------
    # Copies of a sentence. Three to ten before a normal end are left to taste; more are not.
    closed_copies: float = 11
    # Copies of a word or two within a line.
    closed_word_copies: float = 16
    # Copies where the unit is a whole passage of at least `block_tokens` tokens.
    closed_block_copies: float = 4
    block_tokens: float = 40
    # Repeated tokens, at least.
    closed_run_tokens: float = 32
    # Copies of one row of code or data before even a closed structure is not believed (1 = never for pure data).
    closed_row_copies: float = 100

    # -- floods: one character or blank ----------------------------------------------------------------------
    # Characters of white space in a row at the end of an answer. Trailing blank lines are common, 200 of them are not.
    flood_blank_chars: float = 200
    # The same character, unbroken by a line end (twice as many where it is not half of the text): rulers are 80 to
    # 120 wide.
    flood_chars: float = 200
    # Copies of a chat-template or tool tag: one is a leak, many are a loop.
    marker_copies: float = 5

    # -- loops without a period ------------------------------------------------------------------------------
    # Share of sentences (by words) that were said before, from the onset to the end.
    pool_redundancy: float = 0.80
    # Sentences in the region, and how often each distinct one occurs on average.
    pool_sentences: float = 24
    pool_copies: float = 4
    # Share of 8-grams (in prose also of 4-grams) that repeat one of the last 2048 tokens, and how often each occurs
    # there on average. Honest code and prose reach such a share only where something is said twice (1 to 3 copies).
    redundant_share: float = 0.85
    redundant_copies: float = 4
    # Share of tokens equal to the token one period earlier, in a loop with small variations, and tokens in it.
    near_match: float = 0.85
    near_tokens: float = 256

    # -- what ends a loop ------------------------------------------------------------------------------------
    # A loop followed by this share of its own length (between the two bounds, in tokens) of other text has ended.
    recovered_share: float = 0.10
    recovered_min_tokens: float = 24
    recovered_max_tokens: float = 181
    # Share of the repeats that the prompt or the recorded answer must account for to explain a loop.
    explained_share: float = 0.5

    # -- salad -----------------------------------------------------------------------------------------------
    # Window in characters; two bad ones in a row, or one that is the whole text, are a finding.
    salad_window_chars: float = 400
    # Direct changes of script per 100 letters, with at least `salad_scripts` scripts taking part (with one script less:
    # two and a half times as many changes; a Chinese text on mathematics has three scripts).
    salad_switches: float = 4
    salad_scripts: float = 4
    # Share of replacement characters, control characters and byte-soup letters.
    salad_broken_share: float = 0.05
    # Share of articles (the, an, of) followed by a word that cannot follow one ("the of"), and how many such pairs.
    salad_order_share: float = 0.15
    salad_order_pairs: float = 4

    # Structure (see soak/classify/order.py) of the last 300, 500, 800 words and signs below which they have no order.
    # The least seen in 800 windows of agents' talk, instructions and tool results: 0.015, 0.035, 0.075. So the first
    # two bars are reached in about one such window of 250, at the end of an answer in none of 1,700.
    disorder_300: float = 0.025
    disorder_500: float = 0.04
    disorder_800: float = 0.06

    # Words and signs at the end that are looked at, how many different ones there are at most, and the share of runs of
    # six that occur twice: honest text with so few words repeats its phrases (0.08 of them at least, seen in 4,000
    # windows of real agent text).
    fragment_pieces: float = 500
    fragment_distinct: float = 80
    fragment_phrases: float = 0.03

    # Window in token ids, and the share of rare ones (see soak/classify/rarity.py) in each of two. In 93 languages and
    # four tokenizers honest text reaches 0.23; every second token drawn at random gave 0.29 to 0.32.
    rare_window_tokens: float = 128
    rare_share: float = 0.25

    # -- duplicated calls ------------------------------------------------------------------------------------
    # The same call (name and arguments) in one turn. Two may be an accident of the model; three are a loop.
    duplicate_calls: float = 3

    # -- early stops -----------------------------------------------------------------------------------------
    # Points at which a stop is early; see soak/classify/README.md for the points of each sign.
    early_points: float = 3
    suspect_points: float = 2
    # A live answer below this share of the recorded one's tokens gets a point, if the recorded one has at least 64.
    short_share: float = 0.25
    # The same by characters of the content, where token counts say nothing.
    shorter_share: float = 0.6

    # -- bounds ----------------------------------------------------------------------------------------------
    # Characters per channel that the final judgement reads (its end); earlier loops come from the streaming record.
    max_chars: float = 400_000
    # Characters of each text (a tenth of it for each call), and token ids, that the streaming part watches: four times
    # the longest answers asked for, so that a hostile one costs a second and not a minute.
    watched_chars: float = 2_000_000
    watched_tokens: float = 500_000

    def override(self, values: dict[str, float]) -> "Settings":
        """Return settings with `values` put in; raises `ValueError` naming all unknown or unusable ones."""
        known = {field.name for field in fields(self)}
        wrong = sorted(set(values) - known)
        if wrong:
            raise ValueError(f"unknown classifier settings: {', '.join(wrong)}; known: {', '.join(sorted(known))}")
        bad = sorted(name for name, value in values.items() if isinstance(value, bool) or not 0 <= value < 1e12)
        if bad:
            raise ValueError(f"classifier settings must be numbers from 0 up: {', '.join(bad)}")
        return replace(self, **values)


DEFAULTS = Settings()
