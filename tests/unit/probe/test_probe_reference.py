"""The model itself as a reference; what needs torch is skipped where the extra `reference` is not installed."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soak.errors import InputError
from soak.facts import SamplingLaw, TurnKey
from soak.probe import Sampled
from soak.probe.reference import ReferenceModel, ReferenceOrder
from soak.probe.reference.chat import as_templates_want
from soak.shelves import install_command

VOCABULARY = 97
WORDS = [f"w{number}" for number in range(VOCABULARY)]
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"
ASK = """
import sys
from soak.errors import UsageError
from soak.probe.reference import ReferenceModel, ReferenceOrder
sys.modules[sys.argv[1]] = None  # as if it were not installed
try:
    ReferenceModel(ReferenceOrder(model="x")).load()
except UsageError as error:
    print(error.why, error.hint)
"""


def test_without_torch_the_extra_is_named() -> None:
    """The error names the library and the command to install the extra; all else works without it."""
    said = subprocess.run([sys.executable, "-c", ASK, "torch"], capture_output=True, text=True, check=True).stdout
    assert "torch is not installed" in said
    assert install_command("reference") in said


def test_messages_become_what_templates_want() -> None:
    """Parts become text, arguments objects; what cannot be read as such stays as it is, however odd."""
    call = {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}}
    broken = {"id": "b", "function": {"name": "f", "arguments": "{"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call, broken, "odd", {"function": 3}]},
        "odd",
    ]
    user, assistant = as_templates_want(messages)
    assert user["content"] == "a\nb"
    first, second, third, fourth = assistant["tool_calls"]
    assert first["function"]["arguments"] == {"x": 1}
    assert (second, third, fourth) == (broken, "odd", {"function": 3})
    assert call["function"]["arguments"] == '{"x": 1}'
    assert as_templates_want(None) == as_templates_want({"role": "user"}) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of random weights, with a tokenizer of words."""
    torch = pytest.importorskip("torch", reason="the extra `reference` is not installed")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("model")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.4,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, "w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(path)
    return path


def loaded(folder: Path, **fields: Any) -> ReferenceModel:
    """Return the model, ready."""
    model = ReferenceModel(ReferenceOrder(model=str(folder), width=8, **fields))
    model.load()
    return model


def ids(seed: int, size: int) -> list[int]:
    """Return random tokens."""
    return random.Random(seed).choices(range(VOCABULARY), k=size)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_change_nothing(folder: Path, chunk: int) -> None:
    """However the sequence is cut, every row is what one pass over the whole gives."""
    import torch

    model = loaded(folder, chunk_tokens=chunk)
    tokens = ids(1, 60)
    rows = model.score(tokens, 20)
    with torch.inference_mode():
        whole = torch.log_softmax(model._network(torch.tensor([tokens])).logits[0].float(), dim=-1)
    assert len(rows) == 40
    for at, row in enumerate(rows, start=20):
        law = whole[at - 1]
        assert row.token == tokens[at]
        assert row.logprob is not None
        assert math.isclose(row.logprob, float(law[tokens[at]]), abs_tol=1e-4)
        assert row.rank is not None
        assert abs(row.rank - int((law > law[tokens[at]]).sum())) <= 1
        assert len(row.top) == 8
        assert [one for one, _ in row.top][:3] == law.topk(3).indices.tolist()


def test_what_two_sequences_share_is_computed_once_and_gives_the_same(folder: Path) -> None:
    """A second answer to a prompt, a longer prompt, another one: all as by a model that saw nothing before."""
    model = loaded(folder, chunk_tokens=16)
    prompt = ids(2, 40)
    for tokens, first in (
        ([*prompt, *ids(3, 9)], 40),
        ([*prompt, *ids(4, 12)], 40),
        ([*prompt, *ids(4, 12), *ids(5, 8)], 52),
        ([*prompt[:10], *ids(6, 30)], 30),
        (ids(7, 20), 1),
    ):
        fresh = loaded(folder, chunk_tokens=64).score(tokens, first)
        for one, other in zip(model.score(tokens, first), fresh, strict=True):
            assert one.token == other.token
            assert one.logprob is not None
            assert other.logprob is not None
            assert math.isclose(one.logprob, other.logprob, abs_tol=1e-4)


async def test_prompts_and_texts_come_from_the_models_own_tokenizer(folder: Path) -> None:
    """The chat template of the folder makes the prompt; a template that fails is an error with words."""
    key = TurnKey(episode="e", turn=0, pass_=0, arm="a")
    body = {"messages": [{"role": "user", "content": "w3 w5"}]}
    async with ReferenceModel(ReferenceOrder(model=str(folder))) as model:
        assert await model.prompt_ids(Sampled(key=key, body=body, ids=(1,), law=SamplingLaw())) == (3, 5)
        assert await model.text(7) == "w7"
        assert model.vocabulary == VOCABULARY
        with pytest.raises(InputError, match="none of the reference"):
            await model.rows([1, VOCABULARY], 1)
        with pytest.raises(InputError, match="chat template"):
            await model.prompt_ids(
                Sampled(key=key, body={**body, "chat_template_kwargs": {"messages": 1}}, ids=(1,), law=SamplingLaw())
            )


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    """What cannot be loaded is an error that names the folder."""
    pytest.importorskip("torch", reason="the extra `reference` is not installed")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nothing"}))
    with pytest.raises(InputError, match="cannot be loaded"):
        ReferenceModel(ReferenceOrder(model=str(tmp_path))).load()
