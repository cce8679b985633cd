import json

import pytest

from larder import Cache


def test_put_and_get():
    cache = Cache()
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b") is None
    assert cache.get("b", 7) == 7
    assert "a" in cache
    assert "b" not in cache


@pytest.mark.parametrize("options", [{"max_entries": 0}, {"ttl_s": 0}, {"ttl_s": -1}])
def test_impossible_limits(options):
    with pytest.raises(ValueError):
        Cache(**options)


@pytest.mark.parametrize("age, fresh", [(0, True), (9.999, True), (10, False), (11, False)])
def test_age(clock, age, fresh):
    cache = Cache(ttl_s=10, clock=clock)
    cache.put("a", 1)
    clock.advance(age)
    assert ("a" in cache) is fresh
    assert list(cache) == (["a"] if fresh else [])
    assert cache.get("a") == (1 if fresh else None)


def test_ttl_of_an_entry(clock):
    cache = Cache(ttl_s=10, clock=clock)
    cache.put("short", 1, ttl_s=1)
    cache.put("ever", 2, ttl_s=None)
    clock.advance(1000)
    assert list(cache) == ["ever"]


def test_least_recently_used_goes_first():
    cache = Cache(max_entries=2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]
    assert cache.stats.evictions == 1


def test_looking_does_not_touch_the_order():
    cache = Cache(max_entries=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "a" in cache
    assert list(cache) == ["a", "b"]
    cache.put("c", 3)
    assert list(cache) == ["b", "c"]


def test_stale_entries_make_room(clock):
    cache = Cache(max_entries=2, ttl_s=10, clock=clock)
    cache.put("a", 1, ttl_s=100)
    cache.put("b", 2)
    clock.advance(20)
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]
    assert (cache.stats.evictions, cache.stats.expirations) == (0, 1)


def test_get_or_make():
    cache, calls = Cache(), []
    for _ in range(3):
        assert cache.get_or_make("a", lambda: calls.append(1) or 5) == 5
    assert calls == [1]


def test_remove_and_clear(clock):
    cache = Cache(ttl_s=10, clock=clock)
    cache.put("a", 1)
    assert cache.remove("a") is True
    assert cache.remove("a") is False
    cache.put("a", 1)
    clock.advance(10)
    assert cache.remove("a") is False
    cache.put("a", 1)
    cache.clear()
    assert len(cache) == 0


def test_stats(clock):
    cache = Cache(ttl_s=10, clock=clock)
    assert cache.stats.hit_rate is None
    cache.put("a", 1)
    cache.get("a")
    cache.get("b")
    clock.advance(10)
    cache.get("a")
    assert cache.stats.as_dict() == {"hits": 1, "misses": 2, "evictions": 0, "expirations": 1, "hit_rate": 1 / 3}


def test_dump_and_load(clock):
    cache = Cache(ttl_s=10, clock=clock)
    cache.put("a", [1, {"b": None}])
    cache.put("b", "x", ttl_s=None)
    other = Cache(ttl_s=10, clock=clock)
    assert other.load(cache.dump()) == 2
    assert list(other) == ["a", "b"]
    assert other.get("a") == [1, {"b": None}]
    clock.advance(10)
    assert list(other) == ["b"]


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps({"larder": 2, "entries": []})])
def test_not_a_dump(text):
    with pytest.raises(ValueError, match="not a dump"):
        Cache().load(text)
