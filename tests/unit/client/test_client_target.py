"""Targets and secrets."""

import pytest

from soak.client import Secret, Target
from soak.errors import UsageError


@pytest.mark.parametrize(
    "url",
    [
        "http://h:8000",
        "http://h:8000/",
        "http://h:8000/v1",
        "http://h:8000/v1/",
        "http://h:8000/v1/chat/completions",
        "http://h:8000/v1/models",
        " http://h:8000 ",
    ],
)
def test_all_spellings_are_the_same_target(url: str) -> None:
    """With or without /v1 or a path of the API, it is one server."""
    assert Target.parse(url) == Target("http://h:8000")
    assert Target.parse(url).api_url == "http://h:8000/v1"


def test_a_gateway_may_live_under_a_path() -> None:
    """What precedes /v1 stays, and another version number too."""
    assert Target.parse("https://gw.example/api/v1").api_url == "https://gw.example/api/v1"
    assert Target.parse("https://gw.example/paas/v4").api_url == "https://gw.example/paas/v4"
    assert Target.parse("https://gw.example/paas/v4").base_url == "https://gw.example/paas"


@pytest.mark.parametrize("url", ["ftp://h", "h:8000", "", "http://", "http://h?x=1", "http://h/#a", "http://h:99999"])
def test_what_is_no_server_is_refused(url: str) -> None:
    """Anything but an http or https URL with a host is a usage error with three lines."""
    with pytest.raises(UsageError) as caught:
        Target.parse(url)
    assert caught.value.exit_code == 2
    assert len(caught.value.lines()) == 3


def test_credentials_are_used_and_never_shown() -> None:
    """User and password of a URL become basic authentication; no text form of the target holds them or the key."""
    target = Target.parse("http://me:hunter2@h:8000/v1", api_key=None)
    keyed = Target.parse("http://h", api_key="sk-1")
    assert target.headers() == {"authorization": "Basic bWU6aHVudGVyMg=="}
    assert keyed.headers() == {"authorization": "Bearer sk-1"}
    for text in (str(target), repr(target), target.base_url, target.api_url, str(keyed), repr(keyed)):
        assert "hunter2" not in text
        assert "bWU6" not in text
        assert "sk-1" not in text
    with pytest.raises(UsageError) as caught:
        Target.parse("ftp://me:hunter2@h")
    assert "hunter2" not in "".join(caught.value.lines())


def test_a_secret_shows_three_stars() -> None:
    """A secret prints as '***' in every form and is scrubbed from any text."""
    secret = Secret("sk-12345")
    assert f"{secret} {secret!r} {[secret]}" == "*** *** [***]"
    assert secret.reveal() == "sk-12345"
    assert Target("http://h", api_key=secret).scrub("key sk-12345!") == "key ***!"


@pytest.mark.parametrize(
    "url",
    [
        "http://bob:hunter2/pw@h",
        "bob:hunter2@host:8000",
        "http://bob:8000/hunter2@h",
        "http://bob:hunter2@h:port",
        "http://bob:pw@hunter2@h:99999",
        "http://bob:hunter2?x@h",
        "gopher://bob:hunter2@h",
        "http://h?key=hunter2",
    ],
)
def test_a_password_in_a_malformed_url_is_not_shown(url: str) -> None:
    """However a URL with credentials is misspelt, its refusal shows nothing that stands before the last '@'."""
    with pytest.raises(UsageError) as caught:
        Target.parse(url)
    shown = "".join(caught.value.lines())
    assert "hunter2" not in shown
    assert "bob" not in shown


@pytest.mark.parametrize("key", ["a\nb", "a\x00b", "a\x7fb", "ключ", "kéy"])
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    """A key with a line break, a control character or one beyond ASCII is a usage error that names SOAK_API_KEY."""
    with pytest.raises(UsageError, match="SOAK_API_KEY") as caught:
        Target.parse("http://h", api_key=key)
    assert key not in "".join(caught.value.lines())
    assert caught.value.__cause__ is None


def test_the_line_break_after_a_key_is_dropped() -> None:
    """A key read from a file is sent without the line break at its end; one of spaces only is none."""
    assert Target.parse("http://h", api_key="sk-1\r\n").headers() == {"authorization": "Bearer sk-1"}
    assert Target.parse("http://h", api_key=" \n").api_key is None
