"""Command line: free times of a room, recurring dates, working days."""

import argparse
import csv
import sys
from datetime import date

from spans.errors import SpansError
from spans.interval import Interval, IntervalSet, _clock
from spans.recur import Rule
from spans.workdays import WorkCalendar


def build_parser():
    parser = argparse.ArgumentParser(prog="spans", description="Free times, recurring dates, working days.")
    commands = parser.add_subparsers(dest="command", required=True)
    free = commands.add_parser("free", help="free times of a room on a day")
    free.add_argument("file")
    free.add_argument("--room", required=True)
    free.add_argument("--day", type=date.fromisoformat, required=True)
    free.add_argument("--from", dest="opens", default="8:00")
    free.add_argument("--to", dest="closes", default="18:00")
    free.add_argument("--busy", action="store_true", help="print the bookings, merged, instead")
    dates = commands.add_parser("dates", help="the dates of a recurrence")
    dates.add_argument("rule")
    dates.add_argument("--start", type=date.fromisoformat, required=True)
    dates.add_argument("--count", type=int, default=10)
    work = commands.add_parser("workdays", help="the number of working days between two dates")
    work.add_argument("start", type=date.fromisoformat)
    work.add_argument("end", type=date.fromisoformat)
    work.add_argument("--calendar", default="data/holidays.json")
    return parser


def main(argv=None):
    """Run the command line; return the exit code."""
    options = build_parser().parse_args(argv)
    try:
        for line in {"free": _free, "dates": _dates, "workdays": _workdays}[options.command](options):
            print(line)
    except SpansError as error:
        print(f"spans: {error}", file=sys.stderr)
        return 1
    return 0


def read_bookings(path, room):
    """Return the bookings of a room as a set."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["room"] == room]
    if not rows:
        raise SpansError(f"no bookings of {room!r} in {path}")
    return IntervalSet(Interval.parse(row["when"]) for row in rows)


def _free(options):
    window = Interval(_clock(options.opens, options.day), _clock(options.closes, options.day))
    booked = read_bookings(options.file, options.room)
    shown = booked & IntervalSet([window]) if options.busy else booked.gaps(window)
    for interval in shown:
        yield f"{interval.start:%H:%M}-{interval.end:%H:%M}"


def _dates(options):
    for day in Rule.parse(options.rule).dates(options.start, options.count):
        yield f"{day} {day:%a}"


def _workdays(options):
    yield WorkCalendar.load(options.calendar).count(options.start, options.end)
