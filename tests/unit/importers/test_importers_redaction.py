"""What `--redact` replaces, and what it leaves alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rigs.transcripts import NAMES, lay_out

from soak.app.corpora import import_into
from soak.facts import Episode, Message, ToolCall, episode_to_json, make_episode
from soak.importers import Import, load_corpus, redact

# Made up for this test: the shapes are the vendors', the values are nobody's.
SECRETS = [
    "sk-proj-abcDEF0123456789abcDEF0123456789",
    "sk-ant-api03-abcDEF0123456789-abcDEF0123456789_AA",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11AAAAAAA0abcdefghijkl_0123456789abcdefABCDEF",
    "glpat-AbCdEfGh0123456789xy",
    "AKIAIOSFODNN7EXAMPL3",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "ya29.a0AfH6SMBx0123456789abcdef",
    "xoxb-123456789012-abcdefABCDEF",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "npm_0123456789abcdefABCDEF0123456789abcd",
    "pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3ODlhYmNkZWY",
    "SG.abcdefghijklmnopqrstuv.0123456789abcdefABCDEF",
    "sk_live_0123456789abcdefABCD",
    "gsk_0123456789abcdefABCDEF0123456789",
    "nvapi-0123456789abcdefABCDEF-0123456789_x",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
]


def saying(*texts: str, arguments: str = "{}", meta: dict[str, Any] | None = None) -> Episode:
    """Return an episode in which a user says these texts and an answer calls a tool."""
    messages = [Message(role="user", content=text) for text in texts]
    call = ToolCall(id="c1", name="bash", arguments=arguments)
    return make_episode("e", [*messages, Message(role="assistant", tool_calls=(call,))], meta=meta or {})


def cleaned(*texts: str) -> list[str]:
    """Return these texts after redaction as parts of one episode."""
    (episode,), _ = redact([saying(*texts)])
    return [str(node.message.content) for node in episode.nodes[:-1]]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "key={}", '"{}"', "export TOKEN='{}'; ls", "see ({}), then"])
def test_keys_of_the_common_vendors_go(secret: str, around: str) -> None:
    """A key is replaced wherever it stands, and counted."""
    (episode,), counts = redact([saying(around.format(secret))])
    assert secret not in str(episode.nodes[0].message.content)
    assert secret[8:24] not in str(episode.nodes[0].message.content)
    assert counts["key"] == 1


def test_same_value_has_the_same_placeholder_and_others_differ() -> None:
    """Within an episode what refers to each other still does."""
    one, two, again = cleaned("mail ann@lamp.io", "mail bob@lamp.io", "Ann@lamp.io answered")
    assert one == "mail user1@example.com"
    assert two == "mail user2@example.com"
    assert again == "user1@example.com answered"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cd /home/ann/src && ls", "cd /home/user1/src && ls"),
        ("/Users/ann.lee/work", "/Users/user1/work"),
        (r"C:\Users\Ann\x", r"C:\Users\user1\x"),
        (r"C:\\Users\\Ann\\x", r"C:\\Users\\user1\\x"),
        ("projects/-Users-ann-git-x", "projects/-Users-user1-git-x"),
        ("file:///home/ann", "file:///home/user1"),
        ("https://bob:Secr3tPass@host/x", "https://REDACTED_KEY_1@host/x"),
        ("password: hunter2hunter2hunter2hunter2", "password: REDACTED_KEY_1"),
        ("Authorization: Bearer abc123def456ghi789jkl", "Authorization: Bearer REDACTED_KEY_1"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE1KEY2", "AWS_SECRET_ACCESS_KEY=REDACTED_KEY_1"),
    ],
)
def test_homes_names_and_named_secrets_go(text: str, clean: str) -> None:
    """Home folders keep their place without the name; what is named a secret and looks like one goes."""
    assert cleaned(text) == [clean]


@pytest.mark.parametrize(
    "text",
    [
        "the token counts of the run",
        "max_tokens = 20000",
        "token: configuration_of_the_renderer_module",
        "git clone git@github.com:org/repo.git",
        "see admin@example.com",
        "/home/user/x and /Users/Shared/y",
        "icon@2x.png",
        "def f(self, key=None): return sorted(x, key=lambda e: e.start)",
        "sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "task-sk-learn",
        "@pytest.mark.parametrize",
    ],
)
def test_code_and_placeholders_stay(text: str) -> None:
    """What only resembles a secret is left alone, and so is what was replaced before."""
    assert cleaned(text) == [text]


def test_private_key_goes_whole() -> None:
    """The body of a private key goes, its frame stays."""
    body = "MIIEpAIBAAKCAQEA0123456789\nabcdefABCDEF==\n"
    (text,) = cleaned(f"-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----")
    assert "MIIE" not in text
    assert text.startswith("-----BEGIN RSA PRIVATE KEY-----")


def test_arguments_stay_json_even_where_the_value_is_escaped() -> None:
    """Arguments are replaced in place; where escapes hide a value they are written anew, and are JSON either way."""
    plain = json.dumps({"command": 'echo "ann@lamp.io" > /home/ann/x\n'})
    escaped = '{"command": "cat \\u002fhome\\u002fann\\u002fx", "to": "ann\\u0040lamp.io"}'
    (first, second), _ = redact([saying("x", arguments=plain), saying("x", arguments=escaped)])
    assert json.loads(first.nodes[1].message.tool_calls[0].arguments) == {
        "command": 'echo "user1@example.com" > /home/user1/x\n'
    }
    assert json.loads(second.nodes[1].message.tool_calls[0].arguments) == {
        "command": "cat /home/user1/x",
        "to": "user1@example.com",
    }


def test_tools_meta_reasoning_and_parts_are_gone_through() -> None:
    """Every text of an episode is looked at, and its turns and tree stay."""
    tool = {"type": "function", "function": {"name": "f", "description": "ask ann@lamp.io"}}
    parts = [{"type": "text", "text": "from bob@lamp.io"}]
    messages = [
        Message(role="user", content=parts),
        Message(role="user", content="tail"),
        Message(role="assistant", content="ok", reasoning="ann@lamp.io said so"),
    ]
    episode = make_episode("e", messages, parents=[None, 0, 0], tools=(tool,), meta={"cwd": "/home/ann"})
    (clean,), counts = redact([episode])
    assert b"lamp.io" not in episode_to_json(clean)
    assert [node.parent for node in clean.nodes] == [None, 0, 0]
    assert clean.turns == episode.turns
    assert clean.meta == {"cwd": "/home/user1"}
    assert counts == {"e-mail address": 3, "user name": 1}
    assert redact([clean]) == ((clean,), {})


@pytest.mark.parametrize("name", NAMES)
def test_redacting_keeps_the_shape_of_every_format(name: str, tmp_path: Path) -> None:
    """Redacted imports have the same episodes, messages and turns, and redacting them again changes nothing."""
    source = lay_out(name, tmp_path)
    plain = list(Import([source]).episodes())
    clean = list(Import([source], redact=True).episodes())
    assert [(one.id, one.turns, len(one.nodes)) for one in clean] == [
        (one.id, one.turns, len(one.nodes)) for one in plain
    ]
    assert redact(clean)[1] == {}


def test_ids_and_names_of_files_are_redacted_too(tmp_path: Path) -> None:
    """An id made of an e-mail address or a home path does not reach the corpus, and ids stay different."""
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    lines = [
        {"id": id_, "messages": [{"role": "system", "content": id_[-3:]}, *said]}
        for id_ in ("ann@lamp.io/1", "bob@lamp.io/2", "/home/ann/run", "-Users-bob-work", "home-eve-rum")
    ]
    (tmp_path / "ann@lamp.io.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_into([tmp_path / "ann@lamp.io.jsonl"], tmp_path / "c", None, redact=True)
    written = b"".join(path.read_bytes() for path in (tmp_path / "c").iterdir()).decode()
    assert not [name for name in ("ann@", "bob", "eve") if name in written]
    ids = [episode.id for episode in load_corpus(tmp_path / "c").episodes]
    shapes = [re.sub(r"user\d", "USER", id_) for id_ in ids]
    assert shapes == ["USER@example.com-1", "USER@example.com-2", "home-USER-run", "Users-USER-work", "home-USER-rum"]
    assert len(set(ids)) == 5


def test_import_with_redact_writes_a_clean_corpus_and_counts(tmp_path: Path) -> None:
    """The flag of the command reaches the corpus, and the report says how much was replaced."""
    line = {"messages": [{"role": "user", "content": "I am ann@lamp.io"}, {"role": "assistant", "content": "hi"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    (report,) = import_into([tmp_path / "a.jsonl"], tmp_path / "c", None, redact=True)
    assert report.redacted == {"e-mail address": 1}
    (episode,) = load_corpus(tmp_path / "c").episodes
    assert episode.nodes[0].message.content == "I am user1@example.com"
