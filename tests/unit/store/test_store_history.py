"""What goes into a history comes out of it."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from soak.errors import RunFolderError
from soak.facts import EngineSample, Event, Message, TurnKey, digest_of, make_episode
from soak.store import RunFolder, close_open_starts
from soak.store.encoding import pack, unpack


def test_every_kind_of_record_comes_back_as_it_was(run: RunFolder, make: Any) -> None:
    """Starts, ends, samples, events and ticks are read back equal and in order."""
    sample = EngineSample(arm="a", at=1.0, drafts=2.0, success={"stop": 1.0}, accepted_per_position=(1.0, 0.5))
    event = Event(at=2.0, kind="resumed", text="again", data={"n": [1, None]})
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.finish(make.finished(0))
        writer.start(make.started(1))
        writer.finish(make.ended(1))
        writer.finish(make.ended(2, "skipped", "does not fit"))
        writer.sample(sample)
        writer.sample(EngineSample(arm="b", at=1.0))
        writer.event(event)
        writer.tick(1.5)
        writer.tick(3.25)
    with run.history() as history:
        assert list(history.records()) == [make.finished(0), make.ended(1), make.ended(2, "skipped", "does not fit")]
        assert list(history.starts()) == [make.started(0), make.started(1)]
        assert list(history.samples("a")) == [sample]
        assert len(list(history.samples())) == 2
        assert list(history.events()) == [event]
        assert history.active_s() == 3.25
        assert history.done() == {make.key(0), make.key(2)}


def test_an_empty_history_says_so(run: RunFolder, make: Any) -> None:
    """A run in which nothing happened yet has no records, no time used, and no answers to questions about turns."""
    with run.history() as history:
        assert (list(history.records()), history.final(), history.done(), history.open_starts()) == ([], {}, set(), [])
        assert (list(history.samples()), list(history.events()), history.active_s()) == ([], [], 0.0)
        assert (history.started(make.key(0)), history.raw(make.key(0))) == (None, None)
        assert history.start_counts() == {}


def test_final_prefers_finished_and_skipped_over_indeterminate(run: RunFolder, make: Any) -> None:
    """A turn that was broken off and then finished is finished; one only broken off is its last indeterminate."""
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.finish(make.ended(0))
        writer.start(make.started(0, 1))
        writer.finish(make.finished(0))
        writer.start(make.started(1))
        writer.finish(make.ended(1, reason="first"))
        writer.start(make.started(1, 1))
        writer.finish(make.ended(1, reason="second"))
    with run.history() as history:
        final = history.final()
        assert final == {make.key(0): make.finished(0), make.key(1): make.ended(1, reason="second")}
        assert {key: history.last(key) for key in final} == final
        assert history.last(make.key(7)) is None
        assert history.start_counts() == {make.key(0): 2, make.key(1): 2}
        assert history.started(make.key(0)) == make.started(0, 1)


def test_more_records_than_a_page_come_in_order(run: RunFolder, make: Any) -> None:
    """Reading goes on over pages of rows; nothing is skipped or repeated where they meet."""
    with run.writer() as writer:
        for turn in range(1000):
            writer.start(make.started(turn))
            writer.finish(make.finished(turn))
    with run.history() as history:
        assert [record.key.turn for record in history.records()] == list(range(1000))


def test_prefixes_and_tools_are_stored_once(run: RunFolder, make: Any) -> None:
    """Chains given turn by turn give back each prefix, answers and tools, with one row per message."""
    episode = make.episode()
    for _ in range(2):
        with run.writer() as writer:
            for turn in episode.turns:
                writer.messages((*episode.chain(turn), episode.nodes[turn.answer]), episode.tools)
    with run.history() as history:
        for turn in episode.turns:
            assert history.prefix(episode.nodes[turn.prefix].digest) == episode.prefix(turn)
            assert history.message(episode.nodes[turn.answer].digest) == episode.answer(turn)
        assert history.tools(digest_of(list(episode.tools))) == episode.tools
        assert history.tools(None) == ()
    assert rows(run, "SELECT count(*) FROM messages") == [(5,)]
    assert rows(run, "SELECT count(*) FROM tools") == [(1,)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("tools", [(), ({"type": "function"},)])
def test_a_conversation_that_is_a_tree_keeps_its_branches(run: RunFolder, whole: bool, tools: Any) -> None:
    """With messages that do not follow the one before, each prefix is its own branch, given by chains or as a whole."""
    messages = [Message(role="user" if i % 2 == 0 else "assistant", content=str(i)) for i in range(6)]
    episode = make_episode("e", messages, parents=[None, 0, 0, 2, 3, 1], tools=tools)
    with run.writer() as writer:
        if whole:
            writer.messages(episode.nodes, episode.tools)
        for turn in episode.turns:
            writer.messages((*episode.chain(turn), episode.nodes[turn.answer or 0]), episode.tools)
    with run.history() as history:
        for turn in episode.turns:
            assert history.prefix(episode.nodes[turn.prefix].digest) == episode.prefix(turn)
            assert history.message(episode.nodes[turn.answer or 0].digest) == episode.answer(turn)


def test_an_answer_from_elsewhere_in_the_tree_is_kept_and_linked_later(run: RunFolder) -> None:
    """A recorded answer whose prefix was not given is readable alone; once its prefix is given it is linked."""
    messages = [Message(role="user", content=str(i)) for i in range(4)]
    episode = make_episode("e", messages)
    with run.writer() as writer:
        writer.messages((episode.nodes[0], episode.nodes[3]))
    with run.history() as history:
        assert history.message(episode.nodes[3].digest) == messages[3]
        with pytest.raises(RunFolderError):
            history.prefix(episode.nodes[3].digest)
    with run.writer() as writer:
        writer.messages(episode.nodes)
    with run.history() as history:
        assert history.prefix(episode.nodes[3].digest) == tuple(messages)


def test_a_prefix_or_tools_not_stored_are_an_error(run: RunFolder) -> None:
    """Asking for a message or tools that are not there says so and invents nothing."""
    with run.history() as history:
        for question in (history.prefix, history.message, history.tools):
            with pytest.raises(RunFolderError, match="damaged"):
                question("sha256:none")


def test_the_raw_stream_comes_back_byte_for_byte(run: RunFolder, make: Any) -> None:
    """The bytes kept with the last end of a turn are returned; turns without any give None."""
    stream = b"data: {}\r\n\r\n" + bytes(range(256)) * 50
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.finish(make.ended(0), b"broken off")
        writer.start(make.started(0, 1))
        writer.finish(make.finished(0), stream)
        writer.start(make.started(1))
        writer.finish(make.finished(1))
    with run.history() as history:
        assert history.raw(make.key(0)) == stream
        assert history.raw(make.key(1)) is None


def test_compressed_bytes_are_unpacked_within_a_limit() -> None:
    """A small blob that would unpack to more than the limit, or is cut, is refused."""
    assert unpack(pack(b"")) == b""
    assert unpack(pack(b"x" * 1000), limit=1000) == b"x" * 1000
    for packed in (pack(b"x" * 1001), pack(b"xy" * 9)[:-1], b"", b"no"):
        with pytest.raises(ValueError, match="compressed"):
            unpack(packed, limit=1000)


def test_lone_surrogates_and_odd_texts_are_stored(run: RunFolder, make: Any) -> None:
    """Text that is not valid Unicode is kept with U+FFFD in its place; NUL and controls are kept as they are."""
    odd = "a\ud800b\x00\x1f\u2028"
    record = make.finished(0, odd)
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.finish(record)
        writer.event(Event(at=0.0, kind="x", data={"\ud800": [{"deep": odd}]}))
    with run.history() as history:
        (back,) = history.records()
        assert back.observation is not None
        assert back.observation.content == "a\ufffdb\x00\x1f\u2028"
        (event,) = history.events()
        assert event.data == {"\ufffd": [{"deep": "a\ufffdb\x00\x1f\u2028"}]}


def test_starts_that_came_to_no_finish_are_told_with_their_ends(run: RunFolder, make: Any) -> None:
    """A broken-off start has the time of its end, an open one none; a finished start is not among them."""
    with run.writer() as writer:
        for turn in range(3):
            writer.start(make.started(turn))
        writer.finish(make.finished(0))
        writer.finish(make.ended(1))
        writer.start(make.started(1, 1))
        writer.finish(make.finished(1))
    with run.history() as history:
        assert list(history.broken_off()) == [(make.started(1), 1.0), (make.started(2), None)]


def test_open_starts_are_closed_as_indeterminate_and_offered_again(run: RunFolder, make: Any) -> None:
    """After a break, each start without an end gets one; the turn can be started again with the next number."""
    with run.writer() as writer:
        for turn in range(3):
            writer.start(make.started(turn))
        writer.finish(make.finished(1))
    with run.history() as history:
        assert history.open_starts() == [make.started(0), make.started(2)]
    with run.writer() as writer:
        assert close_open_starts(writer, 9.0, "the run was killed") == (make.key(0), make.key(2))
        assert close_open_starts(writer, 9.0, "the run was killed") == ()
        writer.start(make.started(0, 1))
    with run.history() as history:
        assert history.open_starts() == [make.started(0, 1)]
        closed = [record for record in history.records() if record.outcome == "indeterminate"]
        assert [(record.key, record.at, record.reason) for record in closed] == [
            (make.key(turn), 9.0, "the run was killed") for turn in (0, 2)
        ]


def test_a_turn_cannot_end_twice_or_without_a_start(run: RunFolder, make: Any) -> None:
    """What would break 'one end per start' is refused on the spot, in this session and the next, and harms nothing."""
    with run.writer() as writer:
        for bad in (make.finished(0), make.ended(0)):
            with pytest.raises(RunFolderError, match="not recorded"):
                writer.finish(bad)
        writer.start(make.started(0))
        with pytest.raises(RunFolderError, match="not recorded"):
            writer.start(make.started(0, 1))
        writer.finish(make.finished(0))
    with run.writer() as writer:
        for again in (make.finished(0), make.ended(0), make.ended(0, "skipped")):
            with pytest.raises(RunFolderError, match="not recorded"):
                writer.finish(again)
        for start in (0, 1):
            with pytest.raises(RunFolderError, match="not recorded"):
                writer.start(make.started(0, start))
        with pytest.raises(RunFolderError, match="not recorded"):
            writer.start(make.started(1, 1))
        assert writer.failed is None
        writer.event(Event(at=0.0, kind="unharmed"))
    with run.history() as history:
        assert list(history.records()) == [make.finished(0)]
        assert len(list(history.events())) == 1


def test_the_database_itself_refuses_a_second_final_end(run: RunFolder) -> None:
    """The unique index holds even against a writer with a defect."""
    with sqlite3.connect(run.path / "history.sqlite") as connection:
        sql = "INSERT INTO ends (episode, turn, pass, arm, start, outcome, body) VALUES ('e', 0, 0, 'a', ?, ?, '')"
        connection.execute(sql, (0, "indeterminate"))
        connection.execute(sql, (1, "finished"))
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql, (2, "skipped"))
    connection.close()


def test_flush_makes_records_visible_to_a_reader_while_writing_goes_on(run: RunFolder, make: Any) -> None:
    """A reader opened during the run sees what was flushed, and what is added later as it goes on reading."""
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.flush()
        with RunFolder.open(run.path).history() as history:
            assert history.open_starts() == [make.started(0)]
            writer.finish(make.finished(0))
            writer.flush()
            assert history.open_starts() == []
            assert history.done() == {make.key(0)}


def test_records_are_committed_without_a_flush(run: RunFolder, make: Any) -> None:
    """A single record, with nothing after it, reaches other readers by itself."""
    with run.writer() as writer, run.history() as history:
        writer.start(make.started(0))
        waiting = threading.Event()
        for _ in range(1000):
            if history.open_starts():
                break
            waiting.wait(0.01)
        assert history.open_starts() == [make.started(0)]


async def test_writing_from_the_event_loop_keeps_order(run: RunFolder, make: Any) -> None:
    """Tasks that write in turns from one event loop end up in the order in which they wrote."""
    order: list[int] = []

    async def work(writer: Any, turn: int) -> None:
        writer.start(make.started(turn))
        await asyncio.sleep(0)
        writer.finish(make.finished(turn))
        order.append(turn)

    with run.writer() as writer:
        await asyncio.gather(*(work(writer, turn) for turn in range(50)))
    with run.history() as history:
        assert [record.key.turn for record in history.records()] == order


def test_a_closed_writer_refuses_to_write(run: RunFolder, make: Any) -> None:
    """After close nothing is accepted, so nothing can be lost; closing twice is harmless."""
    writer = run.writer()
    writer.close()
    writer.close()
    with pytest.raises(RunFolderError, match="cannot write"):
        writer.tick(1.0)
    with pytest.raises(RunFolderError, match="cannot write"):
        writer.flush()


def test_a_closed_run_is_one_plain_file(run: RunFolder, make: Any) -> None:
    """After the writer is closed no log is left beside the history."""
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.flush()
        assert (run.path / "history.sqlite-wal").exists()
    assert sorted(path.name for path in run.path.iterdir()) == ["history.sqlite", "lock", "manifest.json"]


def test_a_reader_that_stays_open_does_not_hinder_closing_or_going_on(run: RunFolder, make: Any) -> None:
    """With a watcher looking on, the writer closes, and the run is opened and written again."""
    with run.writer() as writer:
        writer.start(make.started(0))
        writer.flush()
        history = run.history()
        assert len(history.open_starts()) == 1
    with run.writer() as writer:
        writer.finish(make.finished(0))
    assert history.done() == {make.key(0)}
    history.close()


def test_keys_with_any_text_are_told_apart(run: RunFolder, make: Any) -> None:
    """Episode ids and arms with quotes, slashes or other alphabets are data and nothing else."""
    names = ["e'; DROP TABLE ends; --", "a/b", "\u00e9", "e\u0301", ""]
    keys = [TurnKey(episode=name, turn=0, pass_=0, arm=name) for name in names]
    with run.writer() as writer:
        for key in keys:
            record = make.ended(0, "skipped")
            writer.finish(type(record)(key=key, outcome="skipped", at=0.0, reason="x"))
    with run.history() as history:
        assert history.done() == set(keys)


def rows(run: RunFolder, sql: str) -> list[Any]:
    connection = sqlite3.connect(Path(run.path) / "history.sqlite")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
