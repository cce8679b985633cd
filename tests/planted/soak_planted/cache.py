"""
The faults in the KV cache.

`stale_cache`: the last full block of a prompt is published as if it were whole, and was not; each later hit that covers
it finds the content of another conversation's block there, until the block is given away, whatever the factors say by
then. The request that published it reads the right content: the fault is seen on hits only. `kv_off_by_one`: in the
step after a draft was rejected, keys and values are written one position late, so that the rejected draft's stay where
the sampled token's belong.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .state import Planted

NULL_BLOCK = 0


def admit(planted: Planted, schedule: Any, block_size: int, speculates: bool) -> None:
    """Take in what is scheduled for a step, before the worker does: new requests, given-away blocks, stale hits."""
    for request in schedule.finished_req_ids:
        planted.notes.pop(request, None)
    running = len(schedule.num_scheduled_tokens)
    for tokens, blocks, computed in _arrivals(planted, schedule):
        hits = computed // block_size
        _give_away(planted, blocks[hits:])
        _remember(planted, tokens, blocks, block_size)
        _make_stale(planted, tokens, blocks, hits, block_size)
        if planted.has("stale_cache") and planted.holds(hit=True, running=running, speculates=speculates):
            _publish(planted, tokens, blocks, hits, block_size)


def _arrivals(planted: Planted, schedule: Any) -> Iterator[tuple[Sequence[int], list[int], int]]:
    """Yield prompt, blocks (of the first KV cache group) and computed tokens of what begins, or begins again."""
    for new in schedule.scheduled_new_reqs:
        planted.admit(new.req_id, new.prompt_token_ids or (), hit=new.num_computed_tokens > 0)
        yield planted.note(new.req_id).prompt, new.block_ids[0], new.num_computed_tokens
    known = schedule.scheduled_cached_reqs
    for request, blocks, computed in zip(known.req_ids, known.new_block_ids, known.num_computed_tokens, strict=True):
        if blocks is None:
            continue
        if request not in known.resumed_req_ids:
            _give_away(planted, blocks[0])
        else:
            planted.note(request).hit |= computed > 0
            yield planted.note(request).prompt, blocks[0], computed


def _give_away(planted: Planted, blocks: Sequence[int]) -> None:
    """Forget what was in blocks that are written anew."""
    given = set(blocks)
    planted.truncated -= given
    kept = [entry for entry in planted.blocks if entry[0] not in given]
    planted.blocks.clear()
    planted.blocks.extend(kept)


def _make_stale(planted: Planted, tokens: Sequence[int], blocks: list[int], hits: int, block_size: int) -> None:
    stale = [at for at in range(min(hits, len(blocks))) if blocks[at] in planted.truncated]
    for at in stale:
        blocks[at] = _elsewhere(planted, tuple(tokens[at * block_size : (at + 1) * block_size]))
    planted.fired("stale_cache", len(stale))


def _elsewhere(planted: Planted, tokens: tuple[int, ...]) -> int:
    """Return the latest block that holds something else, or the null block."""
    return next((block for block, content in reversed(planted.blocks) if content != tokens), NULL_BLOCK)


def _publish(planted: Planted, tokens: Sequence[int], blocks: Sequence[int], hits: int, block_size: int) -> None:
    last = len(tokens) // block_size - 1
    if hits <= last < len(blocks) and planted.happens("stale_cache"):
        planted.truncated.add(blocks[last])
        planted.control.counts["truncated_blocks"] += 1


def _remember(planted: Planted, tokens: Sequence[int], blocks: Sequence[int], block_size: int) -> None:
    last = len(tokens) // block_size - 1
    if 0 <= last < len(blocks):
        planted.blocks.append((blocks[last], tuple(tokens[last * block_size : (last + 1) * block_size])))


def shift(planted: Planted, runner: Any) -> None:
    """Move the new tokens of requests whose draft was rejected one position on, where their blocks have room."""
    batch = runner.input_batch
    requests, table, starts = batch.req_ids, batch.block_table[0], runner.query_start_loc.np
    moved = False
    for row, request in enumerate(requests):
        note = planted.note(request)
        rejected, note.rejected = note.rejected, False
        speculates = runner.speculative_config is not None
        if not rejected or not planted.holds(hit=note.hit, running=len(requests), speculates=speculates):
            continue
        room = min(int(table.num_blocks_per_row[row]) * table.block_size, runner.max_model_len)
        if int(runner.seq_lens[row]) >= room or not planted.happens("kv_off_by_one"):
            continue
        runner.positions[int(starts[row]) : int(starts[row + 1])] += 1
        runner.seq_lens[row] += 1
        runner.optimistic_seq_lens_cpu[row] += 1
        planted.fired("kv_off_by_one")
        moved = True
    if moved:
        count, total = len(requests), int(starts[len(requests)])
        batch.block_table.compute_slot_mapping(count, runner.query_start_loc.gpu[: count + 1], runner.positions[:total])
