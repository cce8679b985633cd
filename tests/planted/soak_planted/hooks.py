"""Every place where vLLM is patched: its V1 model runner and sampler, in the worker process; tried: 0.31, 0.32."""

from functools import wraps
from typing import Any

from .control import Control
from .switch import version_of


def install(control: Control) -> None:
    """
    Patch each worker once it has its model runner; other processes import no such thing, and nothing happens there.

    A worker reads its plugins in `init_worker`, too late to patch that.
    """
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    begin = WorkerWrapperBase.init_device

    @wraps(begin)
    def init_device(self: Any) -> None:
        begin(self)
        _patch(control)

    WorkerWrapperBase.init_device = init_device


def _patch(control: Control) -> None:
    from vllm.version import __version__

    from .state import Planted

    planted = Planted(control, version_of(__version__))
    _patch_runner(planted)
    _patch_sampler(planted)


def _patch_runner(planted: Any) -> None:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    from . import cache, sampling

    update, prepare, sample = GPUModelRunner._update_states, GPUModelRunner._prepare_inputs, GPUModelRunner._sample

    @wraps(update)
    def _update_states(self: Any, scheduler_output: Any) -> Any:
        planted.refresh()
        speculates = self.speculative_config is not None
        cache.admit(planted, scheduler_output, self.cache_config.block_size, speculates)
        return update(self, scheduler_output)

    @wraps(prepare)
    def _prepare_inputs(self: Any, *given: Any, **named: Any) -> Any:
        prepared = prepare(self, *given, **named)
        if planted.has("kv_off_by_one"):
            cache.shift(planted, self)
        return prepared

    @wraps(sample)
    def _sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        batch = self.input_batch
        honest = batch.sampling_metadata
        step = planted.step = sampling.Step(planted, self, logits, spec_decode_metadata)
        batch.sampling_metadata = sampling.distorted(step, honest)
        try:
            sampled = sample(self, logits, spec_decode_metadata)
        finally:
            planted.step, batch.sampling_metadata = None, honest
        step.close(sampled.sampled_token_ids)
        return sampled

    GPUModelRunner._update_states = _update_states
    GPUModelRunner._prepare_inputs = _prepare_inputs
    GPUModelRunner._sample = _sample


def _patch_sampler(planted: Any) -> None:
    """Patch where tokens are chosen, before their logprobs are gathered; with no step under way it is a rehearsal."""
    from vllm.v1.sample import rejection_sampler
    from vllm.v1.sample.sampler import Sampler

    from . import sampling

    choose, verify = Sampler.sample, rejection_sampler.rejection_sample

    @wraps(choose)
    def sample(self: Any, *given: Any, **named: Any) -> Any:
        chosen, logprobs = choose(self, *given, **named)
        if planted.step is not None and not planted.step.drafted:  # else these are bonus tokens, verified below
            sampling.plant(planted.step, chosen.view(-1, 1))
        return chosen, logprobs

    @wraps(verify)
    def rejection_sample(
        draft_token_ids: Any, num_draft_tokens: Any, max_spec_len: Any, cu_num_draft_tokens: Any, draft_probs: Any,
        target_logits: Any, *given: Any, **named: Any,
    ) -> Any:  # fmt: skip
        step, marks = planted.step, {}
        if step is not None:
            target_logits, marks = sampling.unverified(step, target_logits)
        sampled = verify(
            draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens, draft_probs, target_logits, *given,
            **named,
        )  # fmt: skip
        if step is not None:
            sampling.count_unverified(step, sampled, marks)
            sampling.plant(step, sampled)
        return sampled

    Sampler.sample = sample
    rejection_sampler.rejection_sample = rejection_sample
