"""Command line: simulate a plan, list cron times, report on a journal."""

import argparse
import sys

from drover.clock import JumpingClock
from drover.cron import Cron, parse_moment
from drover.errors import DroverError
from drover.journal import read, summary
from drover.plan import load_plan
from drover.runner import Runner


def build_parser():
    parser = argparse.ArgumentParser(prog="drover", description="Jobs with priorities, retries and dependencies.")
    commands = parser.add_subparsers(dest="command", required=True)
    simulate = commands.add_parser("simulate", help="run a plan on a clock that jumps")
    simulate.add_argument("plan")
    simulate.add_argument("--quiet", action="store_true", help="print the totals only")
    upcoming = commands.add_parser("next", help="list cron times")
    upcoming.add_argument("cron")
    upcoming.add_argument("--start", required=True)
    upcoming.add_argument("--count", type=int, default=5)
    report = commands.add_parser("report", help="summarise a journal")
    report.add_argument("journal")
    return parser


def main(argv=None):
    """Run the command line; return the exit code."""
    options = build_parser().parse_args(argv)
    try:
        for line in {"simulate": _simulate, "next": _next, "report": _report}[options.command](options):
            print(line)
    except DroverError as error:
        print(f"drover: {error}", file=sys.stderr)
        return 1
    return 0


def _simulate(options):
    jobs, workers = load_plan(options.plan)
    lines = []
    runner = Runner(jobs, workers, JumpingClock(), lambda at, job, event: lines.append(_line(at, job, event)))
    counts = runner.run()
    if not options.quiet:
        yield from lines
    yield ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) + f" after {runner.clock.now():g} s"


def _line(at, job, event):
    return f"{at:9.1f}  {event:<9}  {job.name}" + (f"  (attempt {job.attempt})" if job.retries.attempts > 1 else "")


def _next(options):
    for moment in Cron(options.cron).upcoming(parse_moment(options.start), options.count):
        yield f"{moment:%a %Y-%m-%d %H:%M}"


def _report(options):
    rows = summary(read(options.journal))
    wide = max((len(row[0]) for row in rows), default=4)
    yield f"{'job':<{wide}}  starts  failures  last       seconds"
    for name, starts, failures, last, seconds in rows:
        yield f"{name:<{wide}}  {starts:>6}  {failures:>8}  {last:<9}  {seconds:>7.1f}"
