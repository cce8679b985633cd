"""Half-open intervals of time and normal sets of them."""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from spans.duration import Duration
from spans.errors import SpansError

CLOCK = re.compile(r"(\d{1,2}):(\d{2})")


@dataclass(frozen=True, order=True)
class Interval:
    """The moments from `start` up to, but not including, `end`."""

    start: datetime
    end: datetime

    def __post_init__(self):
        if self.end < self.start:
            raise SpansError(f"an interval cannot end ({self.end}) before it starts ({self.start})")

    @classmethod
    def parse(cls, text):
        """Return the interval of an ISO 8601 text: start/end, start/duration or duration/end."""
        first, slash, second = text.strip().partition("/")
        if not slash:
            raise SpansError(f"not an interval: {text!r}")
        if first.startswith("P"):
            end = _moment(second)
            return cls((-Duration.parse(first)).add_to(end), end)
        start = _moment(first)
        if second.startswith("P"):
            return cls(start, Duration.parse(second).add_to(start))
        return cls(start, _moment(second))

    @property
    def length(self):
        return self.end - self.start

    def __contains__(self, moment):
        return self.start <= moment < self.end

    def __bool__(self):
        return self.start < self.end

    def __str__(self):
        return f"{self.start:%Y-%m-%dT%H:%M}/{self.end:%Y-%m-%dT%H:%M}"

    def overlaps(self, other):
        """Whether the two have a moment in common."""
        return max(self.start, other.start) < min(self.end, other.end)

    def touches(self, other):
        """Whether there is nothing between the two: they overlap or one starts where the other ends."""
        return max(self.start, other.start) <= min(self.end, other.end)

    def intersection(self, other):
        """Return the moments in both, or None."""
        if not self.overlaps(other):
            return None
        return Interval(max(self.start, other.start), min(self.end, other.end))

    def shift(self, duration):
        """Return the interval moved by a Duration."""
        return Interval(duration.add_to(self.start), duration.add_to(self.end))


class IntervalSet:
    """Any number of intervals in normal form; operators | & - work as with sets."""

    def __init__(self, intervals=()):
        self.intervals = _merge(intervals)

    @classmethod
    def parse(cls, text, day):
        """Return the set that a list of clock times such as "9:00-10:30, 11:00-12:00" spells on a day."""
        return cls(_clock_interval(part, day) for part in text.split(",") if part.strip())

    def __iter__(self):
        return iter(self.intervals)

    def __len__(self):
        return len(self.intervals)

    def __bool__(self):
        return bool(self.intervals)

    def __eq__(self, other):
        return isinstance(other, IntervalSet) and self.intervals == other.intervals

    def __repr__(self):
        return f"IntervalSet([{', '.join(map(str, self.intervals))}])"

    def __contains__(self, moment):
        return any(moment in interval for interval in self.intervals)

    def __or__(self, other):
        return IntervalSet([*self.intervals, *other.intervals])

    def __and__(self, other):
        common, left, right = [], list(self.intervals), list(other.intervals)
        i = j = 0
        while i < len(left) and j < len(right):
            both = left[i].intersection(right[j])
            if both:
                common.append(both)
            if left[i].end < right[j].end:
                i += 1
            else:
                j += 1
        return IntervalSet(common)

    def __sub__(self, other):
        rest = []
        for interval in self.intervals:
            start = interval.start
            for hole in other.intervals:
                if hole.end <= start or hole.start >= interval.end:
                    continue
                if hole.start > start:
                    rest.append(Interval(start, hole.start))
                start = max(start, hole.end)
            if start < interval.end:
                rest.append(Interval(start, interval.end))
        return IntervalSet(rest)

    def total(self):
        """Return the length of all intervals together, as a timedelta."""
        return sum((interval.length for interval in self.intervals), timedelta())

    def gaps(self, window=None):
        """Return the moments of `window` (default: from the first start to the last end) that are in no interval."""
        if window is None:
            if not self.intervals:
                return IntervalSet()
            window = Interval(self.intervals[0].start, self.intervals[-1].end)
        return IntervalSet([window]) - self


def _merge(intervals):
    """Return the normal form of any intervals: sorted, not empty, neither overlapping nor touching."""
    merged = []
    for interval in sorted(interval for interval in intervals if interval):
        if merged and interval.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, interval.end)
        else:
            merged.append(interval)
    return tuple(merged)


def _moment(text):
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise SpansError(f"not a moment: {text!r}") from None


def _clock_interval(text, day):
    first, dash, second = text.strip().partition("-")
    if not dash:
        raise SpansError(f"not a pair of clock times: {text!r}")
    return Interval(_clock(first, day), _clock(second, day))


def _clock(text, day):
    """Return a clock time on a day; 24:00 is the start of the next day."""
    found = CLOCK.fullmatch(text.strip())
    if found is None or int(found[2]) > 59 or int(found[1]) * 60 + int(found[2]) > 24 * 60:
        raise SpansError(f"not a clock time: {text.strip()!r}")
    return datetime.combine(day, time()) + timedelta(hours=int(found[1]), minutes=int(found[2]))
