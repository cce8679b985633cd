"""The cache: an ordered dictionary from the least to the most recently used entry."""

import json
import threading
import time
from collections import OrderedDict

from larder.stats import Stats

_ABSENT = object()


class Entry:
    """A value and the moment, by the cache's clock, from which it is stale (None: never)."""

    __slots__ = ("stale_at", "value")

    def __init__(self, value, stale_at):
        self.value = value
        self.stale_at = stale_at

    def is_fresh(self, now):
        return self.stale_at is None or now < self.stale_at


class Cache:
    """At most `max_entries` values, none older than `ttl_s` seconds. Safe to use from several threads."""

    def __init__(self, max_entries=1000, ttl_s=None, clock=time.monotonic):
        if max_entries < 1:
            raise ValueError("a cache needs room for at least one entry")
        if ttl_s is not None and ttl_s <= 0:
            raise ValueError("ttl_s must be above 0")
        self.max_entries = max_entries
        self.ttl_s = ttl_s
        self.stats = Stats()
        self._clock = clock
        self._entries = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self):
        with self._lock:
            return len(self._entries)

    def __contains__(self, key):
        with self._lock:
            entry = self._entries.get(key)
            return entry is not None and entry.is_fresh(self._clock())

    def __iter__(self):
        with self._lock:
            now = self._clock()
            return iter([key for key, entry in self._entries.items() if entry.is_fresh(now)])

    def get(self, key, default=None):
        """Return the fresh value of a key, or the default."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.stats.misses += 1
                return default
            if not entry.is_fresh(self._clock()):
                self._drop_stale(key)
                self.stats.misses += 1
                return default
            self._entries.move_to_end(key)
            self.stats.hits += 1
            return entry.value

    def put(self, key, value, ttl_s=_ABSENT):
        """Store a value; `ttl_s` overrides the cache's own for this entry."""
        with self._lock:
            lifetime = self.ttl_s if ttl_s is _ABSENT else ttl_s
            stale_at = None if lifetime is None else self._clock() + lifetime
            if len(self._entries) >= self.max_entries:
                self._make_room()
            self._entries[key] = Entry(value, stale_at)
            self._entries.move_to_end(key)

    def get_or_make(self, key, make):
        """Return the fresh value of a key; if there is none, store and return what `make()` returns."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def remove(self, key):
        """Remove a key; return whether it was there and fresh."""
        with self._lock:
            entry = self._entries.pop(key, None)
            return entry is not None and entry.is_fresh(self._clock())

    def clear(self):
        with self._lock:
            self._entries.clear()

    def drop_stale(self):
        """Drop all stale entries; return how many there were."""
        with self._lock:
            now = self._clock()
            stale = [key for key, entry in self._entries.items() if not entry.is_fresh(now)]
            for key in stale:
                self._drop_stale(key)
            return len(stale)

    def dump(self):
        """Return the fresh entries as JSON text, least recently used first."""
        with self._lock:
            now = self._clock()
            entries = [
                {"key": key, "value": entry.value, "stale_at": entry.stale_at}
                for key, entry in self._entries.items()
                if entry.is_fresh(now)
            ]
            return json.dumps({"larder": 1, "entries": entries})

    def load(self, text):
        """Put the entries of a dump into this cache, in their order; return how many."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("larder") != 1:
            raise ValueError("not a dump of a larder cache")
        with self._lock:
            for item in data["entries"]:
                self.put(item["key"], item["value"])
                self._entries[item["key"]].stale_at = item["stale_at"]
            return len(data["entries"])

    def _drop_stale(self, key):
        del self._entries[key]
        self.stats.expirations += 1

    def _make_room(self):
        """Drop stale entries, or else the least recently used one."""
        if not self.drop_stale():
            self._entries.popitem(last=False)
            self.stats.evictions += 1
