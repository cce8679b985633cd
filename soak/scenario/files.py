"""The text of a YAML file, bounded and decoded, or why it is none."""

from pathlib import Path

BYTES_MAX = 1 << 20


def text_in(path: Path, what: str) -> str:
    """Return the text of a file that should be a `what`; raises `ValueError` with the problem as a sentence."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error
    if len(data) > BYTES_MAX:
        raise ValueError(f"is larger than {BYTES_MAX // 1024} KiB, so it is no {what}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: is not UTF-8 (byte {error.start} of the file)") from error
