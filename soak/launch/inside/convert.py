"""
Turn a GGUF file from an installed package into a plain bfloat16 checkpoint with its tokenizer.

`python -I convert.py GGUF_IN_SITE_PACKAGES SHA256 TARGET_FOLDER`
"""

import hashlib
import importlib
import sys
import sysconfig
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Check the file's hash, and convert it; exit with a sentence if it is not the right file."""
    source, sha256, target = Path(sysconfig.get_path("purelib"), arguments[0]), arguments[1], arguments[2]
    if not source.is_file():
        sys.exit(f"the package has no file {arguments[0]}")
    with source.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        sys.exit(f"{source} has SHA-256 {found}, not {sha256}: it is another model or damaged")
    transformers, torch = importlib.import_module("transformers"), importlib.import_module("torch")
    place, name = str(source.parent), source.name
    sys.stderr.write(f"converting {name}\n")
    plainly = {}
    if hasattr(transformers, "GgufConfig"):  # before it was there, a GGUF file was always read as plain numbers
        plainly["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.bfloat16, **plainly)
    model.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(place, gguf_file=name).save_pretrained(target)


if __name__ == "__main__":
    main(sys.argv[1:])
