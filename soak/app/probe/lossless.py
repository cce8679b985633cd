"""
`soak probe --lossless`: do the tokens a server samples follow the model's own law, as a trusted reference gives it?

Answers of a run, or fresh ones drawn here, are scored token by token; `soak.stats.lossless` judges. The reference is
the same build without speculation and without prefix cache, the server given as `--plain`, or the model itself
(`soak.probe.reference`). With a control, answers drawn by the plain server are scored in the same way: what they show
is the noise between decoding and scoring.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from soak.app.probe.benches import WITHOUT_SPECULATION, Bench, Benches, ProbeOrder, bench_name
from soak.app.probe.kept import kept_of
from soak.errors import UsageError
from soak.facts import (
    Capabilities,
    Case,
    Change,
    EngineChange,
    LosslessFound,
    LosslessResult,
    ProbePlan,
    RescoredOutput,
    RescoringCard,
    ScoringCost,
    TokenText,
    Trial,
)
from soak.probe import (
    NUMBER_FORMATS,
    REFEREE_QUESTIONS,
    UNKNOWN_VOCABULARY,
    Ask,
    NumberFormat,
    Referee,
    Sampled,
    ServerReferee,
    body_of,
    key_of,
    left_out,
    pinned,
    rescored,
    sampled_of,
)
from soak.stats.lossless import Bars, judge, measured_noise, read_arm
from soak.store import Journal, ScoreFile, scored_keys

TRUSTED = EngineChange(speculation=False, prefix_cache=False, flags=("--max-logprobs=64",))


def trusted_of(order: ProbeOrder) -> EngineChange:
    """Return the state of the server that scores: a plain one that runs already is taken as it is."""
    runs_already = order.plain is not None and not order.plain.launched
    return WITHOUT_SPECULATION if runs_already else TRUSTED


Role = Literal["candidate", "control"]
Refereeing = Callable[[], AbstractAsyncContextManager[Referee]]

_NOBODY = Capabilities(model="")  # a body's law and messages do not depend on who is asked
_REFERENCE_IN_FLIGHT = 1


@dataclass(frozen=True, kw_only=True)
class LosslessOrder:
    """
    What is scored, and by whom.

    `repeats` fresh answers are drawn to each case; 0: the answers that came back when they were first asked are taken.
    `control` answers are drawn on the plain server. `defaults` are what the server takes where a request says nothing;
    None: not known. `reference` opens a reference model in place of the plain server; `reference_name` is for people.
    """

    repeats: int = 0
    control: int = 0
    in_flight: int = 8
    defaults: Mapping[str, float] | None = None
    reference: Refereeing | None = None
    reference_name: str = ""


def plan_lossless(cases: Sequence[Case], wanted: LosslessOrder, order: ProbeOrder) -> ProbePlan:
    """
    Return what will be sent: answers drawn, one request of one token to score each, and what the server that scores is
    asked first; raises `UsageError`.
    """
    plain = wanted.reference is None or wanted.control > 0
    if plain and (refusal := order.refusal(trusted_of(order))) is not None:
        raise UsageError(
            "there is nobody to score", why=refusal, hint="name a server with --plain, or give --reference"
        )
    once = distinct(cases)
    fresh = [(case, wanted.repeats) for case in once] + _spread(once, wanted.control)
    drawn = sum(repeats for _, repeats in fresh)
    answers = (len(once) * wanted.repeats or len(cases)) + wanted.control
    scored = 0 if wanted.reference else answers + REFEREE_QUESTIONS
    servers = [EngineChange().text] * bool(wanted.repeats) + [TRUSTED.text if order.plain is None else "plain"] * plain
    return ProbePlan(
        probe="lossless",
        case=plan_name([case.name for case in cases]),
        requests=drawn + scored,
        output_tokens=sum(repeats * case.sampling.max_tokens for case, repeats in fresh) + scored,
        kept=_kept(cases, wanted, order, scored),
        servers=(*servers, *([wanted.reference_name] if wanted.reference else [])),
    )


def _kept(cases: Sequence[Case], wanted: LosslessOrder, order: ProbeOrder, scored: int) -> int:
    """Return how many of the answers are drawn already, and of the scores kept: of all, with what comes before them."""
    asks = [Ask(case=pinned(case), repeats=wanted.repeats) for case in distinct(cases)] if wanted.repeats else []
    pairs = [(bench_name(order.target), ask) for ask in asks]
    if wanted.control:
        bench = bench_name(order.spec(trusted_of(order)))
        pairs += [(bench, Ask(case=case, repeats=repeats)) for case, repeats in _control_cases(cases, wanted)]
    if not scored:
        return kept_of(order, pairs)
    wanted_keys = {key_of(case, repeat, "candidate") for case in distinct(cases) for repeat in range(wanted.repeats)}
    wanted_keys |= {case.observation.key for case in cases if case.observation and not wanted.repeats}
    wanted_keys |= {key_of(case, at, "control") for case, n in _control_cases(cases, wanted) for at in range(n)}
    files = [order.folder / f"{role}-by-server.jsonl" for role in ("candidate", "control")]
    done = len(wanted_keys & {key for path in files for key in scored_keys(path)})
    return kept_of(order, pairs) + (scored if done == len(wanted_keys) else done)


def _control_cases(cases: Sequence[Case], wanted: LosslessOrder) -> list[tuple[Case, int]]:
    """Return what the plain server is asked, and how often each."""
    spread = _spread(distinct(cases), wanted.control)
    return [(replace(pinned(case), logprobs=case.logprobs or 0), repeats) for case, repeats in spread]


def probe_lossless(cases: Sequence[Case], wanted: LosslessOrder, benches: Benches) -> LosslessFound:
    """
    Return whether the answers to the cases follow the reference's law; what is scored is kept and not scored again.

    Raises `UsageError` before more is sent than may be, `TargetError` where the reference does not score.
    """
    folder, by = benches.order.folder, "reference" if wanted.reference else "server"
    with ExitStack() as stack:
        files: dict[Role, ScoreFile] = {
            role: stack.enter_context(ScoreFile(folder / f"{role}-by-{by}.jsonl")) for role in ("candidate", "control")
        }
        texts = stack.enter_context(Journal(folder / "texts.jsonl", TokenText))
        return _Session(cases, wanted, benches, files, texts).run()


class _Session:
    """One pair of servers under the test."""

    def __init__(
        self,
        cases: Sequence[Case],
        wanted: LosslessOrder,
        benches: Benches,
        files: dict[Role, ScoreFile],
        texts: Journal[TokenText],
    ) -> None:
        self._wanted = wanted
        self._benches = benches
        self._files = files
        self._texts = texts
        self._cases = [pinned(case) for case in distinct(cases)] if wanted.repeats else list(cases)
        self._control = _control_cases(cases, wanted)
        self._names = {
            "candidate": bench_name(benches.order.target),
            "control": bench_name(benches.order.spec(trusted_of(benches.order)))
            if self._control or not wanted.reference
            else "",
        }
        self._scorer = wanted.reference_name or self._names["control"]
        self._answers: dict[Role, list[Sampled]] = {}
        self._unscored: list[tuple[str, int]] = []
        self._cost = ScoringCost()
        self._notes: list[str] = []

    def run(self) -> LosslessFound:
        self._take("candidate", self._candidate())
        kept = self._kept(self._control_asks(), self._names["control"])
        if kept is not None:
            self._take("control", self._fresh(kept, "control"))
            if not any(self._missing(role) for role in self._files):
                return self._found(self._judged())
        if self._wanted.reference is None:
            with self._benches.open(trusted_of(self._benches.order)) as bench:
                _trusted(bench)
                self._draw_control(bench)
                return self._found(self._refereed(lambda: self._by_server(bench), self._wanted.in_flight))
        if kept is None:
            with self._benches.open(trusted_of(self._benches.order)) as bench:
                _trusted(bench)
                self._draw_control(bench)
        return self._found(self._refereed(self._wanted.reference, _REFERENCE_IN_FLIGHT))

    # -- answers -----------------------------------------------------------------------------------------------

    def _candidate(self) -> list[Sampled | tuple[str, int]]:
        if not self._wanted.repeats:
            return [self._first(case) for case in self._cases]
        asks = [Ask(case=case, repeats=self._wanted.repeats) for case in self._cases]
        kept = self._kept(asks, self._names["candidate"])
        if kept is None:
            with self._benches.open() as bench:
                kept = _drawn(bench, asks, self._wanted.in_flight)
        return self._fresh(kept, "candidate")

    def _first(self, case: Case) -> Sampled | tuple[str, int]:
        """Return the answer that came back when the case was first asked."""
        if case.observation is None:
            return ("nobody says what came back", 0)
        body = body_of(case, Change(same_seed=True), 0, _NOBODY)
        found = sampled_of(case.observation.key, body, case.observation, self._wanted.defaults)
        return (found, case.observation.output_tokens or 0) if isinstance(found, str) else found

    def _fresh(self, drawn: Sequence[tuple[Case, Sequence[Trial]]], role: Role) -> list[Sampled | tuple[str, int]]:
        found: list[Sampled | tuple[str, int]] = []
        for case, trials in drawn:
            for trial in trials:
                body = body_of(case, Change(), trial.repeat, _NOBODY)
                one = sampled_of(key_of(case, trial.repeat, role), body, trial.observation, {})
                found.append((one, trial.observation.output_tokens or 0) if isinstance(one, str) else one)
        return found

    def _take(self, role: Role, found: Sequence[Sampled | tuple[str, int]]) -> None:
        """Take answers to be scored, in the order in which they were drawn."""
        self._answers[role] = sorted((one for one in found if isinstance(one, Sampled)), key=lambda one: one.at)
        self._unscored += [one for one in found if not isinstance(one, Sampled)]

    def _control_asks(self) -> list[Ask]:
        return [Ask(case=case, repeats=repeats) for case, repeats in self._control]

    def _draw_control(self, bench: Bench) -> None:
        if "control" not in self._answers:
            self._take("control", self._fresh(_drawn(bench, self._control_asks(), self._wanted.in_flight), "control"))

    def _kept(self, asks: Sequence[Ask], bench: str) -> list[tuple[Case, Sequence[Trial]]] | None:
        """Return the trials of all asks if every one is kept, None if a server must be asked."""
        found = [self._benches.kept_by(bench, ask) for ask in asks]
        if any(trials is None for trials in found):
            return None
        return [(ask.case, trials) for ask, trials in zip(asks, found, strict=True) if trials is not None]

    # -- scores ------------------------------------------------------------------------------------------------

    def _missing(self, role: Role) -> list[Sampled]:
        scored = self._files[role].outputs
        return [one for one in self._answers[role] if one.key not in scored]

    def _by_server(self, bench: Bench) -> AbstractAsyncContextManager[Referee]:
        if bench.side.capabilities.prefix_cache_on:
            self._notes.append(
                f"{bench.side.given} runs with prefix caching: some releases score cached tokens wrongly"
            )
        return ServerReferee(bench.side.target, bench.side.capabilities, _format(bench))

    def _refereed(self, refereeing: Refereeing, in_flight: int) -> LosslessResult:
        return asyncio.run(self._scored(refereeing, in_flight))

    async def _scored(self, refereeing: Refereeing, in_flight: int) -> LosslessResult:
        async with refereeing() as referee:
            began = time.monotonic()
            for role in ("candidate", "control"):
                await self._score(role, referee, in_flight)
            self._cost = replace(self._cost, seconds=time.monotonic() - began, peak_bytes=referee.peak_bytes())
            result = self._judged()
            await self._name(result, referee)
            return result

    async def _score(self, role: Role, referee: Referee, in_flight: int) -> None:
        missing = sorted(self._missing(role), key=lambda one: one.key)  # like prompts follow one another
        file = self._files[role]
        if not missing:
            return
        file.begin(
            RescoringCard(
                model=referee.model,
                role=role,
                sampled_by=self._names[role],
                scored_by=self._scorer,
                scored_in=referee.number_format,
                vocabulary=referee.vocabulary,
            )
        )
        asked = 0 if self._wanted.reference else len(missing)  # a model in this process is sent nothing
        with self._benches.allowance.held(asked):
            reasons, tokens = await rescored(missing, referee, file.add, in_flight)
        self._unscored += reasons
        self._cost = replace(
            self._cost, answers=self._cost.answers + len(missing) - len(reasons), tokens=self._cost.tokens + tokens
        )

    async def _name(self, result: LosslessResult, referee: Referee) -> None:
        """Keep the texts of the tokens that will be shown."""
        known = {one.id for one in self._texts.kept}
        for token in sorted({id_ for worst in result.worst for id_ in (worst.token_id, worst.top_id)} - known):
            if (text := await referee.text(token)) is not None:
                self._texts.add(TokenText(id=token, text=text))

    # -- the result --------------------------------------------------------------------------------------------

    def _outputs(self, role: Role) -> list[RescoredOutput]:
        scored = self._files[role].outputs
        return [scored[one.key] for one in self._answers[role] if one.key in scored]

    def _judged(self) -> LosslessResult:
        control = self._outputs("control")
        return judge(self._card, self._outputs("candidate"), control=control or None)

    @property
    def _card(self) -> RescoringCard:
        """Whose scores are judged; where there are none, a card that says so."""
        return self._files["candidate"].card or RescoringCard(
            model="",
            role="candidate",
            sampled_by=self._names["candidate"],
            scored_by=self._scorer,
            vocabulary=UNKNOWN_VOCABULARY,
        )

    def _found(self, result: LosslessResult) -> LosslessFound:
        card, ours, plain = self._card, self._outputs("candidate"), self._outputs("control")
        shown = {id_ for worst in result.worst for id_ in (worst.token_id, worst.top_id)}
        return LosslessFound(
            case=plan_name([case.name for case in self._cases]),
            sampled_by=card.sampled_by,
            scored_by=card.scored_by,
            scored_in=card.scored_in,
            width=max((output.width for output in ours), default=0),
            vocabulary=card.vocabulary,
            result=result,
            unscored=left_out(self._unscored),
            notes=(*self._notes, *_advice(self._unscored)),
            control=(len(plain), sum(output.tokens for output in plain)),
            noise=measured_noise(read_arm(card, plain, Bars()), Bars()).deviation if plain else None,
            cost=self._cost,
            texts={one.id: one.text for one in self._texts.kept if one.id in shown},
            files=tuple(str(file.path) for file in self._files.values() if file.card is not None),
        )


def _trusted(bench: Bench) -> None:
    """Raise `UsageError` for a plain server that speculates."""
    if bench.side.capabilities.speculation_on:
        raise UsageError(
            f"{bench.side.given} cannot be trusted to score",
            why="it runs with speculation, which is what is tested",
            hint="give --plain a server without it, or --reference",
        )


def _advice(unscored: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return what would make answers usable whose law is not known."""
    if not any("left to the server" in reason for reason, _ in unscored):
        return ()
    return (
        "what the server takes where a request says nothing is not known: --generation-config FILE or none says it",
    )


def _format(bench: Bench) -> NumberFormat:
    """Return the number format that the flags of a build name."""
    flags = bench.side.recipe.file.flags if bench.side.recipe else ()
    named = [flag.removeprefix("--dtype=") for flag in flags if flag.startswith("--dtype=")]
    return next((one for one in NUMBER_FORMATS if named[-1:] == [one]), "unknown")


def distinct(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that ask different questions: a turn of several passes once."""
    return list({key_of(case, 0, ""): case for case in reversed(cases)}.values())[::-1]


def plan_name(names: Sequence[str]) -> str:
    """Return the names of cases, the first three of many."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _spread(cases: Sequence[Case], answers: int) -> list[tuple[Case, int]]:
    """Return how often each case is asked so that there are so many answers in all, as evenly as can be."""
    each, more = divmod(answers, max(len(cases), 1))
    return [(case, each + (at < more)) for at, case in enumerate(cases) if each + (at < more)]


def _drawn(bench: Bench, asks: Sequence[Ask], in_flight: int) -> list[tuple[Case, Sequence[Trial]]]:
    trials = bench.asker.together(asks, in_flight)
    return [(ask.case, of_case) for ask, of_case in zip(asks, trials, strict=True)]
