"""
A causal language model that says what it makes of given tokens.

A sequence is computed in chunks of `chunk_tokens`, without padding, behind one key-value cache; logits are made only
for the places asked for. So memory is the weights, the cache, and for one chunk at a time three tables of chunk ×
vocabulary numbers of 4 bytes: 0.3 GB at 512 tokens and 49,152 entries, 0.9 GB at 151,936. What two sequences that
follow one another have in common at their beginning is computed once.
"""

import asyncio
import resource
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self, get_args

import msgspec

from soak.client import Row
from soak.errors import InputError, LaunchError, SoakError, UsageError
from soak.probe.reference.chat import as_templates_want
from soak.probe.rescoring import NumberFormat, Rows
from soak.probe.sampled import Sampled
from soak.shelves import install_command

Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
WIDTH = 64


class ReferenceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which model (a folder, or a name on the Hub), in which number format, where, and how many tokens at once."""

    model: str
    precision: Precision = "float32"
    device: str = "cpu"
    chunk_tokens: int = 512
    width: int = WIDTH

    @property
    def name(self) -> str:
        """What a person reads."""
        return f"{Path(self.model).name} in {self.precision} on {self.device}"


class ReferenceModel:
    """
    A referee (`soak.probe.rescoring`): an async context manager that holds the model.

    Raises `UsageError` where the extra is not installed, `InputError` where the model cannot be loaded, `LaunchError`
    where it does not fit the memory.
    """

    def __init__(self, order: ReferenceOrder) -> None:
        self._order = order
        self.model = Path(order.model).name
        self.number_format: NumberFormat = order.precision
        self._width = order.width
        self.vocabulary = 0
        self.context_tokens: int | None = None
        self._torch: ModuleType | None = None
        self._network: Any = None
        self._tokenizer: Any = None
        self._kept: tuple[list[int], Any] = ([], None)
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.load)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._network, self._kept = None, ([], None)

    def load(self) -> None:
        """Load the model; done by entering."""
        torch, transformers = _libraries()
        transformers.utils.logging.disable_progress_bar()
        order = self._order
        try:
            device = torch.device(order.device)
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(order.model)
            network = transformers.AutoModelForCausalLM.from_pretrained(
                order.model, dtype=getattr(torch, order.precision)
            )
            self._network = network.to(device).eval()
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise InputError(
                f"the reference model {order.model} cannot be loaded",
                why=_words(error),
                hint="give a folder with config.json, the weights and the tokenizer, or a name on the Hub",
            ) from error
        except RuntimeError as error:
            raise _failed(order, error) from error
        self._torch = torch
        self.vocabulary = int(network.config.get_text_config().vocab_size)
        self._width = min(order.width, self.vocabulary)

    async def prompt_ids(self, sampled: Sampled) -> tuple[int, ...]:
        """Return the ids of the prompt by the chat template that comes with the model."""
        return await asyncio.to_thread(self._prompt_ids, sampled.body)

    async def rows(self, ids: Sequence[int], first: int) -> Rows:
        """Return what the model makes of the tokens from `ids[first]` on, each after all before it."""
        async with self._turn:
            return Rows(self._width, await asyncio.to_thread(self.score, ids, first))

    async def text(self, token: int) -> str | None:
        """Return the text of a token."""
        return str(self._tokenizer.decode([token]))

    def peak_bytes(self) -> int | None:
        """Return the most memory held: of the GPU, or of this whole process."""
        if self._torch is not None and self._order.device.startswith("cuda"):
            return int(self._torch.cuda.max_memory_allocated(self._order.device))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def score(self, ids: Sequence[int], first: int) -> tuple[Row, ...]:
        """As `rows`, not asynchronously; `first` is at least 1. Raises `InputError` for an id the model has not."""
        wrong = next((one for one in ids if not 0 <= one < self.vocabulary), None)
        if wrong is not None:
            raise InputError(
                f"token {wrong} is none of the reference model's",
                why=f"{self.model} has {self.vocabulary:,} tokens",
                hint="give the model that sampled the tokens",
            )
        assert self._torch is not None, "used outside its `async with`"
        try:
            with self._torch.inference_mode():
                return tuple(self._rows(list(ids), first))
        except RuntimeError as error:
            self._kept = ([], None)
            raise _failed(self._order, error) from error

    def _rows(self, ids: list[int], first: int) -> list[Row]:
        begin, cache = self._cached(ids, first)
        rows: list[Row] = []
        for at in range(begin, len(ids) - 1, self._order.chunk_tokens):
            chunk = ids[at : min(at + self._order.chunk_tokens, len(ids) - 1)]
            wanted = min(len(chunk), at + len(chunk) - (first - 1))
            logits, cache = self._computed(chunk, cache, max(wanted, 1))
            if wanted > 0:
                end = at + len(chunk) + 1
                rows += self._chunk_rows(logits, ids[end - wanted : end])
        self._kept = (ids[:-1], cache)
        return rows

    def _cached(self, ids: list[int], first: int) -> tuple[int, Any]:
        """Return how many tokens at the beginning need not be computed again, and the cache that holds them."""
        before, cache = self._kept
        self._kept = ([], None)  # it is changed from here on
        limit = min(len(before), first - 1)
        same = next((at for at in range(limit) if before[at] != ids[at]), limit)
        if cache is None or not same or not hasattr(cache, "crop"):
            return 0, None
        cache.crop(same - len(before)) if same < len(before) else None
        return same, cache

    def _computed(self, chunk: list[int], cache: Any, wanted: int) -> tuple[Any, Any]:
        assert self._torch is not None
        tokens = self._torch.tensor([chunk], device=self._order.device)
        out = self._network(tokens, past_key_values=cache, use_cache=True, logits_to_keep=wanted)
        return out.logits[0, -wanted:, : self.vocabulary], out.past_key_values

    def _chunk_rows(self, logits: Any, given: list[int]) -> list[Row]:
        assert self._torch is not None
        laws = self._torch.log_softmax(logits.float(), dim=-1)
        own = laws.gather(1, self._torch.tensor(given, device=laws.device)[:, None])
        ranks = (laws > own).sum(dim=1).tolist()
        best = laws.topk(self._width, dim=1)
        lists = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [
            Row(top=tuple(zip(names, shares, strict=True)), token=token, logprob=logprob, rank=rank)
            for (names, shares), token, logprob, rank in zip(lists, given, own[:, 0].tolist(), ranks, strict=True)
        ]

    def _prompt_ids(self, body: dict[str, Any]) -> tuple[int, ...]:
        options = body.get("chat_template_kwargs")
        try:
            ids = self._tokenizer.apply_chat_template(
                as_templates_want(body.get("messages")),
                tools=body.get("tools"),
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                **(options if isinstance(options, dict) else {}),
            )
            return tuple(int(one) for one in ids)
        except Exception as error:  # a template is a program of the model's makers: it may raise anything
            raise InputError(
                f"the chat template of {self.model} does not take a prompt",
                why=_words(error),
                hint="score with a server (--plain), which has the template it was started with",
            ) from error


def _libraries() -> tuple[ModuleType, ModuleType]:
    """Return torch and transformers; raises `UsageError` where they are not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise UsageError(
            "a reference model cannot be loaded",
            why=f"{error.name or error} is not installed; it comes with the extra `reference`",
            hint=install_command("reference"),
        ) from error
    return torch, transformers


def _failed(order: ReferenceOrder, error: RuntimeError) -> SoakError:
    if "memory" in str(error).lower():
        return LaunchError(
            f"the reference {order.name} ran out of memory",
            why=_words(error),
            hint="take a smaller --chunk, --precision bfloat16, or another --device",
        )
    return UsageError(
        f"the reference {order.name} cannot be computed", why=_words(error), hint="see --device and --reference"
    )


def _words(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__)[:300]
