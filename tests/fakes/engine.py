"""What the fake pretends to be inside: model card, token counts, prefix cache, counters and their metrics page."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

Switch = Literal["on", "off", "stuck"]
Mood = Literal["usual", "full", "none"]
BLOCK = 16


@dataclass
class FakeEngine:
    """
    State of one fake engine.

    `speculation` on: counters move; stuck: exported but never moving; off: not exported. `prefix_cache` likewise
    (off: the configuration says so). `requires_key` is the API key asked for. `native_tools` False answers 400 to
    requests with tools. `template_ignores_tools` leaves tools out of the token count. `stale_from`: a request with so
    many cached tokens or more is answered as another would be.

    `full_in_loops`: all drafts are accepted while an answer loops. `refused_from`: none is for prompts of that many
    tokens and more. `preempt_every`, `corrupt_every`: every n-th request is preempted as it begins, or found to hold
    NaN as it ends (0: never, and NaN are not counted at all). `tells_drafts`: answers tell their own drafts.
    `preempts_above`: a request that comes while so many are running counts as a preemption.
    """

    model: str = "fake-model"
    context_tokens: int = 131_072
    version: str = "0.32.0"
    speculation: Switch = "on"
    prefix_cache: Switch = "on"
    requires_key: str | None = None
    native_tools: bool = True
    template_ignores_tools: bool = False
    token_ids: bool = True
    metrics: bool = True
    tokenize: bool = True
    more_models: tuple[str, ...] = ()
    num_speculative_tokens: int = 3
    stale_from: int | None = None
    preempts_above: int | None = None
    started_at: float = 0.0
    running: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    queries: int = 0
    hits: int = 0
    drafted_for: int = 0
    full_in_loops: bool = False
    refused_from: int | None = None
    preempt_every: int = 0
    corrupt_every: int = 0
    tells_drafts: bool = False
    preemptions: int = 0
    corrupted: int = 0
    admitted: int = 0
    full_for: int = 0
    refused_for: int = 0
    success: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error"), 0))
    _seen: OrderedDict[bytes, int] = field(default_factory=OrderedDict)

    @property
    def models(self) -> tuple[str, ...]:
        """The names served."""
        return (self.model, *self.more_models)

    def count(self, body: dict[str, Any]) -> int:
        """Return the prompt tokens of a request: a quarter of its characters, as a plain and fast stand-in."""
        return self._tools_count(body) + sum(self._cost(message) for message in _messages(body))

    def _tools_count(self, body: dict[str, Any]) -> int:
        tools = body.get("tools")
        return len(json.dumps(tools)) // 4 if tools and not self.template_ignores_tools else 0

    def _cost(self, message: Any) -> int:
        return 4 + len(_text(message)) // 4

    def admit(self, body: dict[str, Any]) -> tuple[int, int]:
        """Count a request in; return its prompt tokens and how many of them the prefix cache held."""
        total = self._tools_count(body)
        digest = hashlib.sha256(json.dumps([body.get("tools"), body.get("cache_salt")]).encode())
        cached = 0
        for message in _messages(body):
            digest.update(_text(message).encode("utf-8", "replace") + b"\0")
            total += self._cost(message)
            key = digest.digest()
            if key in self._seen:
                cached = total
            self._remember(key, total)
        cached = min(cached, max(total - 1, 0)) // BLOCK * BLOCK if self.prefix_cache == "on" else 0
        self.prompt_tokens += total
        self.admitted += 1
        self.preemptions += self.preempt_every > 0 and self.admitted % self.preempt_every == 0
        if self.preempts_above is not None and self.running >= self.preempts_above:
            self.preemptions += 1
        if self.prefix_cache != "off":
            self.queries += total
            self.hits += cached
        return total, cached

    def _remember(self, key: bytes, tokens: int) -> None:
        self._seen[key] = tokens
        self._seen.move_to_end(key)
        if len(self._seen) > 100_000:
            self._seen.popitem(last=False)

    def mood(self, fault: str, prompt_tokens: int) -> Mood:
        """Return what becomes of the drafts of a request with this fault and prompt."""
        if self.refused_from is not None and prompt_tokens >= self.refused_from:
            return "none"
        return "full" if self.full_in_loops and "loop" in fault else "usual"

    def generated(self, tokens: int, mood: Mood = "usual") -> None:
        """Count tokens sent to a client, and the drafts they came from."""
        self.generation_tokens += tokens
        if mood == "full":
            self.full_for += tokens
        elif mood == "none":
            self.refused_for += tokens
        else:
            self.drafted_for += tokens

    def ended(self, finish: str | None) -> None:
        """Count one request out under its finish reason ("abort" where the client hung up)."""
        name = {"tool_calls": "stop", None: "error"}.get(finish, finish)
        self.success[name] = self.success.get(name, 0) + 1
        self.corrupted += self.corrupt_every > 0 and sum(self.success.values()) % self.corrupt_every == 0

    def page(self) -> str:
        """Return the metrics page, in vLLM's names."""
        lines = [f"process_start_time_seconds {self.started_at}"]
        lines += self._cache_info()
        lines += self._metric("num_requests_running", "gauge", self.running)
        lines += self._metric("num_requests_waiting", "gauge", 0)
        lines += self._metric("kv_cache_usage_perc", "gauge", min(self.running * 0.02, 1.0))
        lines += self._metric("prompt_tokens_total", "counter", self.prompt_tokens)
        lines += self._metric("generation_tokens_total", "counter", self.generation_tokens)
        lines += self._metric("num_preemptions_total", "counter", self.preemptions)
        lines += self._metric("prefix_cache_queries_total", "counter", self.queries)
        lines += self._metric("prefix_cache_hits_total", "counter", self.hits)
        if self.corrupt_every:
            lines += self._metric("corrupted_requests_total", "counter", self.corrupted)
        for reason, value in self.success.items():
            lines += self._metric("request_success_total", "counter", value, finished_reason=reason)
        lines += self._speculation_lines()
        return "\n".join(dict.fromkeys(lines)) + "\n"

    def _cache_info(self) -> list[str]:
        enabled = str(self.prefix_cache != "off")
        labels = f'block_size="{BLOCK}",enable_prefix_caching="{enabled}",engine="0",num_gpu_blocks="5000"'
        return ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{{{labels}}} 1.0"]

    def _speculation_lines(self) -> list[str]:
        if self.speculation == "off":
            return []
        depth, on = self.num_speculative_tokens, self.speculation == "on"
        tokens = self.drafted_for if on else 0
        usual = tokens * 10 // 22
        full = self.full_for // (depth + 1) if on else 0
        drafts = usual + full + (self.refused_for if on else 0)
        lines = self._metric("spec_decode_num_drafts_total", "counter", drafts)
        lines += self._metric("spec_decode_num_draft_tokens_total", "counter", drafts * depth)
        lines += self._metric("spec_decode_num_accepted_tokens_total", "counter", tokens - usual + full * depth)
        left = tokens - usual
        for position in range(depth):
            part = left if position == depth - 1 else min(left, usual * (6, 4, 2, 1)[min(position, 3)] // 10)
            left -= part
            name = "spec_decode_num_accepted_tokens_per_pos_total"
            lines += self._metric(name, "counter", part + full, position=str(position))
        return lines

    def _metric(self, name: str, kind: str, value: float, **labels: str) -> list[str]:
        everything = {"engine": "0", "model_name": self.model, **labels}
        text = ",".join(f'{key}="{label}"' for key, label in everything.items())
        return [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{{{text}}} {float(value)}"]


def _messages(body: dict[str, Any]) -> list[Any]:
    messages = body.get("messages")
    return messages if isinstance(messages, list) else []


def _text(message: Any) -> str:
    if not isinstance(message, dict):
        return ""
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content)
    return f"{message.get('role')}:{text}{json.dumps(message.get('tool_calls', ''))}"
