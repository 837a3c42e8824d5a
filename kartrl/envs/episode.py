"""A finished episode, as it is told."""

from typing import Any, NamedTuple


class Episode(NamedTuple):
    """One finished episode; an agent or the evaluator sends it to the server."""

    agent_steps: int  # length of the episode, in actions chosen
    episodic_return: float  # sum of untransformed rewards
    finished: bool  # terminated (a finished race) rather than truncated
    circuit: str = ""  # "" where there are no circuits
    use: str = "train"  # "train" or "test"
    progress: float = 0.0  # laps driven, with fractions
    lap_times: tuple[float, ...] = ()  # seconds on the race clock

    @classmethod
    def of(cls, info: dict[str, Any], finished: bool, use: str = "train") -> "Episode":
        """From the `info` of an episode's last step, with Gymnasium's episode statistics in it."""
        return cls(
            agent_steps=int(info["episode"]["l"]),
            episodic_return=float(info["episode"]["r"]),
            finished=finished,
            circuit=info.get("circuit", ""),
            use=use,
            progress=float(info.get("progress", 0.0)),
            lap_times=tuple(info.get("lap_times", ())),
        )
