"""The name of one planned turn."""

import msgspec


class TurnKey(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """Episode id, turn index in the episode, pass through the corpus (from 0), and arm name: unique in a run."""

    episode: str
    turn: int
    pass_: int = msgspec.field(name="pass")
    arm: str

    def __str__(self) -> str:
        return f"{self.episode}:{self.turn}:{self.pass_}:{self.arm}"

    @property
    def pair(self) -> tuple[str, int, int]:
        """What two arms share: episode, turn and pass."""
        return (self.episode, self.turn, self.pass_)
