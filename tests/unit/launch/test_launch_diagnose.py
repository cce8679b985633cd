import pytest

from soak.launch.diagnose import diagnose


@pytest.mark.parametrize(
    ("code", "line", "kind"),
    [
        (1, "OSError: [Errno 28] No space left on device", "disk"),
        (1, "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes", "memory"),
        (1, "ValueError: Available memory on node 0 is less than desired CPU memory utilization (0.92)", "memory"),
        (1, "OSError: [Errno 98] Address already in use", "port"),
        (1, "RuntimeError: operator torchvision::nms does not exist", "packages"),
        (1, "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm", "packages"),
        (1, "libfoo.so: undefined symbol: _ZN3c10", "packages"),
        (1, "ERROR: No matching distribution found for torch==2.13.0+cpu", "network"),
        (2, "api_server.py: error: unrecognized arguments: --frobnicate", "flags"),
        (1, "ValueError: Model architectures ['Foo'] are not supported for now.", "model"),
        (-9, "INFO loading", "memory"),
        (-4, "INFO loading", "machine"),
        (-15, "INFO loading", "unknown"),
        (None, "INFO loading", "unknown"),
    ],
)
def test_a_death_is_told_by_its_code_and_last_lines(code: int | None, line: str, kind: str) -> None:
    """Each cause of death that we know is recognised, and its line is quoted in the reason."""
    found = diagnose(code, ("INFO starting", line, "INFO shutting down"))
    assert found.kind == kind
    assert found.hint
    if kind not in ("memory", "machine", "unknown"):
        assert line in found.why


def test_the_cause_comes_before_its_consequences() -> None:
    """A full disk that ends in an ImportError is a full disk."""
    lines = ("OSError: [Errno 28] No space left on device", "ImportError: cannot import name x")
    assert diagnose(1, lines).kind == "disk"


RAISED = "(EngineCore pid=7) ERROR 11-30 18:00:00 [core.py:9] ValueError: row 7 of 3"
DEAD = "(APIServer pid=5) ERROR 11-30 18:00:01 [async_llm.py:9] EngineDeadError: EngineCore encountered an issue."
FELL = "(APIServer pid=5) ERROR 11-30 18:00:01 [core_client.py:9] Engine core proc EngineCore died unexpectedly."
WARNED = "(APIServer pid=5) WARNING 11-30 17:59:00 [x.py:9] ImportError: no module for a thing nobody needs"
LEAKED = "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: 1 leaked shared_memory object"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((WARNED, RAISED, DEAD, "INFO: Shutting down", LEAKED, "warnings.warn("), "ValueError: row 7 of 3"),
        ((FELL, DEAD, LEAKED), "Engine core proc EngineCore died unexpectedly."),
        ((DEAD, LEAKED), "EngineDeadError: EngineCore encountered an issue."),
        (("Traceback (most recent call last):", "torch.cuda.FooError: 7", "bye"), "torch.cuda.FooError: 7"),
        (("INFO: starting", LEAKED), f"its last line: {LEAKED}"),
    ],
)
def test_the_reason_is_an_error_and_no_warning(lines: tuple[str, ...], told: str) -> None:
    """Of an engine's last lines the last error is quoted, a cause before what followed from it, and no warning."""
    why = diagnose(1, lines).why
    assert why.removeprefix("it ended with exit code 1").lstrip(":; ") == told


def test_a_warning_is_no_cause_of_death() -> None:
    """What a log marks as a warning does not condemn an engine that died of something else."""
    assert diagnose(-9, (WARNED,)).kind == "memory"


def test_a_death_without_a_word_is_said_to_be_one() -> None:
    """Without any log line the exit code is all there is to say."""
    assert diagnose(7, ()).why == "it ended with exit code 7 without a word"


def test_a_server_that_goes_into_the_background_is_told_to_stay() -> None:
    """A command that ends without an error before its server is ready has most likely left it behind."""
    assert "foreground" in diagnose(0, ("starting in the background",)).hint
