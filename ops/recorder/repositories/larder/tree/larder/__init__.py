"""An in-memory cache with limits on size and age."""

from larder.cache import Cache
from larder.decorator import cached
from larder.stats import Stats

__all__ = ["Cache", "Stats", "cached"]
