"""Counters of one cache."""

from dataclasses import asdict, dataclass


@dataclass
class Stats:
    """What happened so far."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expirations: int = 0

    @property
    def hit_rate(self):
        """Hits per look-up, None before the first."""
        looked_up = self.hits + self.misses
        return self.hits / looked_up if looked_up else None

    def as_dict(self):
        return asdict(self) | {"hit_rate": self.hit_rate}
