"""Which failing turns are asked again first."""

from soak.app.probe.cases import worst_first


def test_loops_come_first_and_episodes_take_turns() -> None:
    """Classes from loop to error; within one the second turn of an episode waits for the first of every other."""
    failed = [
        ("error", "a:0:0:x"),
        ("garbage_loop", "b:1:0:x"),
        ("garbage_loop", "b:2:0:x"),
        ("max_tokens", "a:1:0:x"),
        ("garbage_loop", "name:with:colons:9:0:x"),
        ("early_stop", "c:0:0:x"),
    ]
    assert worst_first(failed) == [  # type: ignore[arg-type]
        "b:1:0:x",
        "name:with:colons:9:0:x",
        "b:2:0:x",
        "c:0:0:x",
        "a:1:0:x",
        "a:0:0:x",
    ]
