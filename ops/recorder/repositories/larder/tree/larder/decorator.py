"""`cached`: remember what a function returned."""

import functools

from larder.cache import Cache

_NOTHING = object()


def cached(max_entries=1000, ttl_s=None, **options):
    """Return a decorator that remembers results by arguments; the cache is the attribute `cache` of the function."""

    def decorate(function):
        cache = Cache(max_entries, ttl_s, **options)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            key = make_key(args, kwargs)
            value = cache.get(key, _NOTHING)
            if value is _NOTHING:
                value = function(*args, **kwargs)
                cache.put(key, value)
            return value

        wrapper.cache = cache
        return wrapper

    return decorate


def make_key(args, kwargs):
    """Return a hashable key for the arguments of a call."""
    key = args + tuple(kwargs.items())
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key
