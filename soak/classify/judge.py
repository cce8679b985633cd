"""One turn's judgement: while it streams, and when it has ended. Live and offline take the same path."""

from math import inf

import msgspec

from soak.classify.calls import call_problems, duplicates
from soak.classify.canaries import LiveWords, word_findings
from soak.classify.context import Context
from soak.classify.endings import ending_problems, finish_defects, finish_of, usage_defects
from soak.classify.explain import Explanation
from soak.classify.guard import Guard
from soak.classify.looping import report_loops
from soak.classify.markup import find_leak, is_bare_call
from soak.classify.pieces import Cuts
from soak.classify.settings import DEFAULTS, Settings
from soak.classify.stops import early_stop
from soak.classify.stream import Stream
from soak.classify.textcalls import broken_calls, calls_in_text
from soak.facts import Chunk, Finding, Judgement, Observation, Signal, ToolCall, TurnClass, clean, text_of

_MAX_FINDINGS = 16
_EXCERPT_CHARS = 200


class TurnJudge:
    """
    Judges one answer: `push` each chunk as it arrives, then `finish` with what was stored.

    Memory per stream is bounded, whatever the answer's length: at most 1.7 MB on token ids and 1.4 MB on text, most of
    it the last 8192 token positions (tracemalloc over 60,000 tokens that hardly repeat; tests/unit/classify/
    test_classify_bounds.py holds it below 2 MB). One `push` takes at most some milliseconds, however deep the prompt.
    """

    def __init__(self, context: Context, settings: Settings = DEFAULTS) -> None:
        self._context = context
        self._settings = settings
        self._stream = Stream(settings)
        self._explanation = Explanation(context)
        self._guard = Guard(self._stream, self._explanation, settings)
        self._words = LiveWords(context.canary) if context.canary is not None else None

    def push(self, chunk: Chunk, at: float = -inf) -> Signal | None:
        """
        Take the next chunk; return a signal when a loop has become certain (one per loop), or at a foreign word.

        `at` is when the chunk was read, in seconds of any one clock: given, a signal is due at most half a second and
        the pause between two chunks after the chunk that made the loop certain. It changes no judgement.
        """
        told = self._words.push(chunk) if self._words is not None else None
        return (self._guard.look() if self._stream.push(chunk, at) else None) or told

    def finish(self, observation: Observation) -> Judgement:
        """
        Return the class of the ended turn with all findings.

        The stored answer decides: if it is not what was pushed, it is read again from its beginning.
        """
        cuts = Cuts(observation.token_ids)
        self._stream.finish()
        if not self._stream.covers(observation):
            self._stream = Stream.of(observation, cuts, self._settings)
        return _decide(observation, self._context, cuts, self._stream, self._explanation, self._settings)


def judge(observation: Observation, context: Context, settings: Settings = DEFAULTS) -> Judgement:
    """Return the judgement of a stored answer: what `TurnJudge` would have come to live."""
    return TurnJudge(context, settings).finish(observation)


def _decide(
    observation: Observation,
    context: Context,
    cuts: Cuts,
    stream: Stream,
    explanation: Explanation,
    settings: Settings,
) -> Judgement:
    """Put the findings of all rooms together; the first of garbage_loop, error, max_tokens, early_stop decides."""
    loops = report_loops(observation, cuts, stream, explanation, settings)
    calls = _calls(observation, context)
    repeated = duplicates(calls, settings)
    garbage = [
        *loops.garbage,
        *(finding for finding in repeated if finding.kind == "duplicate_calls"),
        *_guarded(observation, bool(loops.garbage)),
    ]
    notes = [*finish_defects(observation), *loops.notes, *(f for f in repeated if f.kind != "duplicate_calls")]
    notes += usage_defects(observation)
    finish = finish_of(observation)
    words = word_findings(observation, context.canary)
    notes += words.notes
    errors = [*words.faults, *ending_problems(observation), *call_problems(calls, context, cut=finish == "length")]
    if context.tool_mode == "text":
        errors += broken_calls(observation.content)
    leaks = _leaks(observation, context, cut=finish == "length")
    errors += [leak for leak in leaks if leak.kind != "template_token_at_end"]
    notes += [leak for leak in leaks if leak.kind == "template_token_at_end"]
    if garbage:
        return _judgement("garbage_loop", garbage, errors + notes)
    if errors:
        return _judgement("error", errors, notes)
    if finish == "length":
        return _judgement("max_tokens", [_at_limit(observation)], notes)
    if not calls:
        stops = early_stop(observation, context, settings)
        early = [stop for stop in stops if stop.kind != "suspect_stop"]
        if early:
            return _judgement("early_stop", early, notes)
        notes += stops
    return _ok(notes)


def _calls(observation: Observation, context: Context) -> tuple[ToolCall, ...]:
    """Return the calls the server parsed, and in tool mode `text` those written into the content."""
    if context.tool_mode == "native":
        return observation.tool_calls
    return observation.tool_calls + calls_in_text(observation.content)


def _guarded(observation: Observation, seen: bool) -> list[Finding]:
    """Return a finding where a guard (the server's or ours) ended the answer as a loop and no rule here saw it."""
    if seen:
        return []
    if finish_of(observation) == "repetition":
        return [
            Finding(kind="server_guard", confidence=0.9, text="the server's own guard ended the answer as repetition")
        ]
    if observation.ending == "cut":
        return [Finding(kind="guard_cut", confidence=0.9, text="the answer was cut while it streamed, as a loop")]
    return []


def _leaks(observation: Observation, context: Context, *, cut: bool) -> list[Finding]:
    expected = context.reference is not None and not context.reference.tool_calls
    if (
        not expected
        and not observation.tool_calls
        and context.tool_mode == "native"
        and is_bare_call(observation.content)
    ):
        text = "the content is the JSON of a tool call, which the server did not parse"
        return [Finding(kind="call_in_content", unit=observation.content[:_EXCERPT_CHARS], confidence=0.9, text=text)]
    recorded = "" if context.reference is None else text_of(context.reference.content)
    leak = find_leak(observation.content, (context.prompt_text, recorded))
    if leak is None or (leak.kind == "call_markup" and (context.tool_mode == "text" or cut)):
        return []
    if leak.kind == "template_token" and leak.last:
        kind, text = "template_token_at_end", f"the content ends with the template token {leak.markup!r}"
    elif leak.kind == "call_markup":
        kind, text = "call_markup_in_content", f"markup of a tool call is left in the content: {leak.markup!r}"
    else:
        kind, text = "template_token_in_content", f"a template token is left in the content: {leak.markup!r}"
    excerpt = observation.content[leak.at : leak.at + _EXCERPT_CHARS]
    return [Finding(kind=kind, onset_char=leak.at, unit=excerpt, confidence=0.9, text=text)]


def _at_limit(observation: Observation) -> Finding:
    tokens = observation.output_tokens
    after = f"after {tokens} tokens " if tokens is not None else ""
    return Finding(
        kind="token_limit",
        onset_char=len(observation.content),
        confidence=1.0,
        text=f"{after}the token limit ended it; no loop or salad was found",
    )


def _judgement(name: TurnClass, deciding: list[Finding], others: list[Finding]) -> Judgement:
    findings = tuple(_cleaned(finding) for finding in [*deciding, *others][:_MAX_FINDINGS])
    return Judgement(class_=name, reason=findings[0].text, findings=findings)


def _ok(notes: list[Finding]) -> Judgement:
    findings = tuple(_cleaned(finding) for finding in notes[:_MAX_FINDINGS])
    reason = f"no fault found; noted: {findings[0].text}" if findings else "no fault found"
    return Judgement(class_="ok", reason=reason, findings=findings)


def _cleaned(finding: Finding) -> Finding:
    """Return the finding with its excerpts fit for UTF-8: model output may hold lone surrogates."""
    return msgspec.structs.replace(finding, unit=clean(finding.unit), text=clean(finding.text))
