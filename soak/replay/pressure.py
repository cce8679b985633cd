"""More and more in flight until the engine preempts."""

from soak.facts import EngineSample, Load
from soak.facts.scenario import Pressure


class PressureGauge:
    """
    How many conversations may be in flight, raised until every arm's preemption counter has moved.

    Told the readings of the metrics pages; `reached` is how many were allowed at most.
    """

    def __init__(self, load: Load, pressure: Pressure, arms: tuple[str, ...]) -> None:
        self._start = load.in_flight
        self._pressure = pressure
        self._last: dict[str, float] = {}
        self._moved = dict.fromkeys(arms, 0.0)
        self._held: int | None = None
        self.reached = load.in_flight

    def take(self, sample: EngineSample) -> None:
        """Take one reading; a counter that fell began anew with the engine."""
        if sample.preemptions is None or sample.arm not in self._moved:
            return
        before = self._last.get(sample.arm, sample.preemptions)
        self._last[sample.arm] = sample.preemptions
        self._moved[sample.arm] += max(0.0, sample.preemptions - before)
        if self._held is None and all(self._moved.values()):
            self._held = self.reached

    def allowed(self, elapsed_s: float) -> int:
        """Return how many conversations may be in flight `elapsed_s` seconds after the beginning."""
        if self._held is None:
            steps = int(max(0.0, elapsed_s) / self._pressure.every_s)
            self.reached = min(self._pressure.cap, max(self.reached, self._start + steps * self._pressure.step))
        return self.reached if self._held is None else self._held

    def said(self) -> str:
        """Return what came of it, as a sentence."""
        seen = ", ".join(f"{arm} {moved:.0f}" for arm, moved in self._moved.items() if moved)
        unseen = [arm for arm, moved in self._moved.items() if not moved]
        blind = [arm for arm in unseen if arm not in self._last]
        most = f"at most {self.reached} conversations in flight (the cap is {self._pressure.cap})"
        if not unseen:
            return f"pressure: preemption seen ({seen}) with {most}"
        if blind:
            return f"pressure: {', '.join(blind)}: no counter of preemptions was read, with {most}"
        return f"pressure: no preemption seen on {', '.join(unseen)} with {most}" + (f"; seen: {seen}" if seen else "")
