"""The section of the replays: which ones there are, what they hold, and how they draw."""

from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from kartrl.config.schedule import Candidates, Schedule, Share, constant
from kartrl.config.section import Section, Words, split_words

METHODS = ("queue", "uniform", "prioritised", "attentive", "elite")
BY_DISTANCE = ("attentive", "elite")
FINEST = 100  # shares are fractions of at most so many parts
TOLERANCE = 1e-3  # within which a number is such a fraction

Steps = Annotated[int, Field(ge=1, le=10**9)]
Shares = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1)], ...], BeforeValidator(split_words), Field(min_length=1, max_length=16)
]


class Drawn(NamedTuple):
    """One of the replays."""

    name: str  # the method's; with a number where others before it have the same
    method: str
    capacity: int  # steps
    share: Fraction  # of the batch
    scattered: bool  # holds others than the newest unrolls


class Replay(Section):
    """Unrolls that are kept and learned from again, beside fresh ones: acer, appo and impala (docs/replay.md)."""

    methods: Annotated[Words, Field(min_length=1, max_length=16)] = Field(
        ("auto",),
        description="what a batch is made of: queue (fresh unrolls) and any of uniform, prioritised, attentive, elite; "
        "none; auto: acer uniform, others none",
    )
    shares: Shares | Literal["auto"] = Field(
        "auto", description="of the batch, one for each method, such as 0.5 0.5; they sum to 1; auto: equal ones"
    )
    capacities: Annotated[tuple[Steps, ...], BeforeValidator(split_words), Field(min_length=1, max_length=16)] = Field(
        (100_000,),
        description="steps that each replay holds at most, frames in memory once: one number, or one for each method "
        "(the queue's says nothing)",
    )
    gigabytes: float = Field(
        0.0,
        ge=0,
        le=100_000,
        description="memory that replays may take at most; 0: what is free at the start; compressed: oldest go then",
    )
    compression: Literal["none", "lz4"] = Field(
        "none", description="of frames: none, or lz4 (pip install kartrl[replay])"
    )
    save: bool = Field(
        False, description="what replays hold is saved with each checkpoint, and there again when the run is resumed"
    )
    start: Steps = Field(10_000, description="steps that have come in before any is drawn")
    priority_exponent: float = Field(
        0.6, ge=0, le=1, description="prioritised: alpha, power of the TD error by which is drawn; 0: uniform"
    )
    importance_exponent: Share = Field(
        constant(0.4), description="prioritised: beta of the importance weights, or its schedule; 1: no bias is left"
    )

    candidates: Candidates = Field(
        Schedule("linear", 6.0, 1.0),
        description="attentive, elite: lambda, unrolls that are drawn for each one that is taken, or its schedule",
    )
    strategy: int = Field(
        3,
        ge=1,
        le=4,
        description="attentive, elite: take the nearest (1), the nearest of each group (2), the least often sampled "
        "(3), or the least often sampled of each group (4)",
    )
    distance: Literal["norm", "cosine", "kl"] = Field(
        "norm",
        description="attentive, elite: of features: norm (of their difference), cosine (1 - it), kl (of softmax)",
    )
    norm: float = Field(2.0, ge=1, le=16, description="attentive, elite: p of distance = norm")
    insertion: Literal["oldest", "elite"] = Field(
        "oldest",
        description="attentive, elite: what a new unroll takes the place of: the oldest; or elite: the farthest of "
        "some",
    )
    challengers: int = Field(20, ge=1, le=1000, description="insertion = elite: of how many the farthest goes")

    @model_validator(mode="after")
    def _is_a_mixture(self) -> "Replay":
        methods, number = self.methods, len(self.methods)
        if methods in (("auto",), ("none",)):
            if self.shares != "auto" or len(self.capacities) > 1:
                raise ValueError(f"shares and capacities are of methods, and methods = {methods[0]}")
            return self
        if unknown := [method for method in methods if method not in METHODS]:
            raise ValueError(f"unknown method {unknown[0][:40]!r}; there are {', '.join(METHODS)}, none and auto")
        if methods.count("queue") > 1 or set(methods) == {"queue"}:
            raise ValueError("methods may name queue once, beside another one")
        if self.shares != "auto" and len(self.shares) != number:
            raise ValueError(f"shares must have one number for each of the {number} methods, got {len(self.shares)}")
        if sum(shares := _fractions(self)) != 1 or 0 in shares:
            raise ValueError("shares must be 0.01 or more each, and sum to 1")
        if len(self.capacities) not in (1, number):
            raise ValueError(f"capacities must be one number or {number}, got {len(self.capacities)}")
        return self

    def drawn(self, by_default: str) -> tuple[Drawn, ...]:
        """The replays, without the queue.

        Args:
            by_default: the method where `methods` is auto; none for none.
        """
        methods = (by_default,) if self.methods == ("auto",) else self.methods
        if methods == ("none",):
            return ()
        shares = _fractions(self)
        capacities = self.capacities if len(self.capacities) > 1 else self.capacities * len(methods)
        drawn = []
        for place, method in enumerate(methods):
            before = methods[:place].count(method)
            name = method if not before else f"{method}_{before + 1}"
            scattered = method in BY_DISTANCE and self.insertion == "elite"
            drawn.append(Drawn(name, method, capacities[place], shares[place], scattered))
        return tuple(replay for replay in drawn if replay.method != "queue")


def _fractions(section: Replay) -> list[Fraction]:
    """The shares, freed of what decimals lose."""
    if section.shares == "auto":
        return [Fraction(1, len(section.methods))] * len(section.methods)
    near = [Fraction(share).limit_denominator(FINEST) for share in section.shares]
    return [
        fraction if abs(fraction - share) < TOLERANCE else Fraction(share)
        for fraction, share in zip(near, map(Fraction, section.shares), strict=True)
    ]


class Clear(Section):
    """Cloning of what is replayed (CLEAR, arXiv:1811.11682), against forgetting: acer, appo and impala."""

    policy_cost: float = Field(0.0, ge=0, description="weight of policy cloning; 0.01 in the paper; 0: none")
    value_cost: float = Field(0.0, ge=0, description="weight of value cloning; 0.005 in the paper; 0: none")
    form: Literal["paper", "seed"] = Field(
        "paper",
        description="paper: KL(acting || learning policy) and squared error; seed: KL(learning || acting) and its norm",
    )

    @property
    def clones(self) -> bool:
        """Whether there is anything to add to a loss."""
        return bool(self.policy_cost or self.value_cost)


class Laser(Section):
    """Steps of too different policies teach nothing (LASER, arXiv:1909.11583): appo and impala."""

    threshold: float = Field(
        0.0, ge=0, description="KL(policy || acting policy) from which a step teaches nothing; 0.3 in the seed; 0: none"
    )
    form: Literal["seed", "paper"] = Field(
        "seed",
        description="seed: of the learning policy, masks traces, advantages and value errors; paper: of a lagged one, "
        "masks temporal differences too",
    )
    target_decay: float = Field(
        0.99, ge=0, le=1, description="form = paper: decay of the average that lags behind, at each optimizer step"
    )
