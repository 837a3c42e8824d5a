"""The sections [replay], [clear] and [laser]: what is replayed, and how it is learned from."""

from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from kartrl.config.schedule import Candidates, Share, constant, ramp
from kartrl.config.section import Section, Words, split_words

METHODS = ("queue", "uniform", "prioritised", "attentive", "elite")
BY_DISTANCE = ("attentive", "elite")
SCHEDULED = {"importance_exponent": {"prioritised"}, "candidates": {*BY_DISTANCE}}  # keys, and methods that use them
FINEST = 100  # largest denominator of a share
TOLERANCE = 1e-3  # within which a number is rounded to such a fraction

Steps = Annotated[int, Field(ge=1, le=10**9)]
Shares = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1)], ...], BeforeValidator(split_words), Field(min_length=1, max_length=16)
]


class Drawn(NamedTuple):
    """A replay of the mixture."""

    name: str  # the method, followed by a number if an earlier replay has the same method
    method: str
    capacity: int  # steps
    share: Fraction  # of the batch
    scattered: bool  # may hold unrolls other than the newest


class Replay(Section):
    """Experience replay: earlier unrolls that are learned from again, in acer, appo and impala (docs/replay.md)."""

    methods: Annotated[Words, Field(min_length=1, max_length=16)] = Field(
        ("auto",),
        description="what each batch consists of: queue (fresh unrolls) and any of uniform, prioritised, attentive, "
        "elite; none: no replay; auto: uniform for acer, none for the others",
    )
    shares: Shares | Literal["auto"] = Field(
        "auto", description="each method's share of the batch, such as 0.5 0.5, which must sum to 1; auto: equal shares"
    )
    capacities: Annotated[tuple[Steps, ...], BeforeValidator(split_words), Field(min_length=1, max_length=16)] = Field(
        (100_000,),
        description="maximum number of steps in each replay: one number, or one per method (queue's is ignored); each "
        "frame is in memory only once",
    )
    gigabytes: float = Field(
        0.0,
        ge=0,
        le=100_000,
        description="maximum memory of all replays together; 0: what is free at the start; with compression, the "
        "oldest unrolls are dropped when it is full",
    )
    compression: Literal["none", "lz4"] = Field(
        "none", description="compression of frames: none, or lz4 (pip install 'kartrl[replay]')"
    )
    save: bool = Field(
        False,
        description="save the contents of the replays with each checkpoint, and restore them when the run is resumed",
    )
    start: Steps = Field(10_000, description="number of fresh steps to collect before any are replayed")
    priority_exponent: float = Field(
        0.6,
        ge=0,
        le=1,
        description="prioritised: alpha, the exponent of the TD error in the sampling probability; 0: uniform",
    )
    importance_exponent: Share = Field(
        constant(0.4),
        description="prioritised: beta, the exponent of the importance weights, or a schedule; 1: full bias correction",
    )

    candidates: Candidates = Field(
        ramp("linear", 6.0, 1.0),
        description="attentive, elite: lambda, the number of candidates drawn for each unroll that is sampled, or a "
        "schedule",
    )
    strategy: int = Field(
        3,
        ge=1,
        le=4,
        description="attentive, elite: take the nearest candidates (1), the nearest of each group (2), the least often "
        "sampled (3), or the least often sampled of each group (4)",
    )
    distance: Literal["norm", "cosine", "kl"] = Field(
        "norm",
        description="attentive, elite: distance between features: norm (of their difference), cosine (1 - cosine "
        "similarity) or kl (between their softmaxes)",
    )
    norm: float = Field(2.0, ge=1, le=16, description="attentive, elite: p of the p-norm that distance = norm uses")
    insertion: Literal["oldest", "elite"] = Field(
        "oldest",
        description="attentive, elite: which unroll a new one replaces: oldest, or elite (the farthest of several "
        "drawn at random)",
    )
    challengers: int = Field(
        20, ge=1, le=1000, description="insertion = elite: number of unrolls drawn, of which the farthest is replaced"
    )

    @model_validator(mode="after")
    def _is_a_mixture(self) -> "Replay":
        methods, number = self.methods, len(self.methods)
        if methods in (("auto",), ("none",)):
            if self.shares != "auto" or len(self.capacities) > 1:
                raise ValueError(f"shares and capacities need methods, but methods = {methods[0]}")
            return self
        if unknown := [method for method in methods if method not in METHODS]:
            raise ValueError(f"unknown method {unknown[0][:40]!r}; choose from {', '.join(METHODS)}, none and auto")
        if methods.count("queue") > 1 or set(methods) == {"queue"}:
            raise ValueError("methods may name queue once, along with another")
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
            by_default: the method if `methods` is auto; "none" for no replay.
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
    """The shares as exact fractions, corrected for the rounding of decimals."""
    if section.shares == "auto":
        return [Fraction(1, len(section.methods))] * len(section.methods)
    near = [Fraction(share).limit_denominator(FINEST) for share in section.shares]
    return [
        fraction if abs(fraction - share) < TOLERANCE else Fraction(share)
        for fraction, share in zip(near, map(Fraction, section.shares), strict=True)
    ]


class Clear(Section):
    """Behavioural cloning of earlier policies, against forgetting (CLEAR, arXiv:1811.11682), in acer, appo, impala."""

    policy_cost: float = Field(0.0, ge=0, description="weight of policy cloning; 0.01 in the paper; 0: off")
    value_cost: float = Field(0.0, ge=0, description="weight of value cloning; 0.005 in the paper; 0: off")
    form: Literal["paper", "seed"] = Field(
        "paper",
        description="paper: KL(acting || learning policy) and squared value error, of replayed steps; seed: "
        "(the form of a system that kartrl grew from) KL(learning || acting policy) and norm of the value error, of "
        "all steps that [laser] does not mask",
    )

    @property
    def clones(self) -> bool:
        """Whether there are terms to add to the loss."""
        return bool(self.policy_cost or self.value_cost)


class Laser(Section):
    """Masking of steps whose acting policy differs too much (LASER, arXiv:1909.11583), in appo and impala."""

    threshold: float = Field(
        0.0,
        ge=0,
        description="mask steps whose KL(policy || acting policy) is at least this, such as 0.3; 0: off",
    )
    form: Literal["seed", "paper"] = Field(
        "seed",
        description="seed (the form of a system that kartrl grew from): compare the learning policy, and mask traces, "
        "advantages and value errors; paper: compare a lagged policy, and mask temporal differences too",
    )
    target_decay: float = Field(
        0.99, ge=0, le=1, description="form = paper: decay of the lagged (averaged) policy per optimizer step"
    )

    @property
    def seed_threshold(self) -> float:
        """The threshold of `form = seed`; 0: off."""
        return self.threshold if self.form == "seed" else 0.0
