"""Intervals, durations, recurrences and working days."""

from spans.duration import Duration
from spans.errors import SpansError
from spans.interval import Interval, IntervalSet
from spans.recur import Rule
from spans.workdays import WorkCalendar

__all__ = ["Duration", "Interval", "IntervalSet", "Rule", "SpansError", "WorkCalendar"]
