"""
One turn, asked again and again: what makes it fail, and what does not.

May touch: the target's API through `client`, judging through `classify`, intervals through `stats`, and a journal it is
handed. It starts no server and writes no file itself: `app.probe` opens benches (servers, each in one state) and
journals for it. Modules that decide (what to ask next, what the answers mean) are pure; `asking.py` and `rescoring.py`
alone send.
"""

from soak.probe.allowance import Allowance
from soak.probe.asking import Ask, Asker, Keep
from soak.probe.bundling import bundle_files, change_of, class_of, promise_of
from soak.probe.caching import (
    bar_of,
    beginning,
    branch,
    cache_found,
    floor_of,
    prefixes_of,
    probe_of,
    probing,
)
from soak.probe.cells import FIRST_REPEAT, Cell, cells_of
from soak.probe.conditions import (
    ALONE,
    AS_ASKED,
    COOL,
    COOL_TEMPERATURE,
    GREEDY,
    NO_CACHE,
    NO_SPECULATION,
    PLAIN_COLD,
    RESTARTED,
    SALTED,
    Seen,
    greedy,
    restart_matters,
)
from soak.probe.diagnosis import diagnose, identical_of, of_client, onset_of, places_of
from soak.probe.gridded import found_by_grid
from soak.probe.laws import impossible, law_of, reshaped
from soak.probe.nearness import apart
from soak.probe.outcomes import answer_of, answered, outcomes_of, silence_is_asked, spoke, telling
from soak.probe.parting import divergence_found, parting_of
from soak.probe.question import body_of, seed_of
from soak.probe.rescoring import (
    NUMBER_FORMATS,
    REFEREE_QUESTIONS,
    UNKNOWN_VOCABULARY,
    NumberFormat,
    Referee,
    ServerReferee,
    output_of,
    rescored,
)
from soak.probe.sampled import NEUTRAL, Sampled, key_of, law_of_body, left_out, pinned, sampled_of
from soak.probe.shrinking import FRESH, STEP_ROUNDS, Form, confirms, groups_of, rate_test_for, smaller

__all__ = [
    "ALONE",
    "AS_ASKED",
    "COOL",
    "COOL_TEMPERATURE",
    "FIRST_REPEAT",
    "FRESH",
    "GREEDY",
    "NEUTRAL",
    "NO_CACHE",
    "NO_SPECULATION",
    "NUMBER_FORMATS",
    "PLAIN_COLD",
    "REFEREE_QUESTIONS",
    "RESTARTED",
    "SALTED",
    "STEP_ROUNDS",
    "UNKNOWN_VOCABULARY",
    "Allowance",
    "Ask",
    "Asker",
    "Cell",
    "Form",
    "Keep",
    "NumberFormat",
    "Referee",
    "Sampled",
    "Seen",
    "ServerReferee",
    "answer_of",
    "answered",
    "apart",
    "bar_of",
    "beginning",
    "body_of",
    "branch",
    "bundle_files",
    "cache_found",
    "cells_of",
    "change_of",
    "class_of",
    "confirms",
    "diagnose",
    "divergence_found",
    "floor_of",
    "found_by_grid",
    "greedy",
    "groups_of",
    "identical_of",
    "impossible",
    "key_of",
    "law_of",
    "law_of_body",
    "left_out",
    "of_client",
    "onset_of",
    "outcomes_of",
    "output_of",
    "parting_of",
    "pinned",
    "places_of",
    "prefixes_of",
    "probe_of",
    "probing",
    "promise_of",
    "rate_test_for",
    "rescored",
    "reshaped",
    "restart_matters",
    "sampled_of",
    "seed_of",
    "silence_is_asked",
    "smaller",
    "spoke",
    "telling",
]
