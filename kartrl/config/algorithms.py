"""The sections of the algorithms: one each, with the names and defaults of its paper, and one that they share."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from kartrl.config.schedule import Cost, Rate, Share, constant
from kartrl.config.section import Numbers, Section, Words


class AlgorithmSection(Section):
    """Base class of the algorithms' own sections."""

    alternates: ClassVar[bool] = False
    """Whether replayed unrolls make updates of their own, between those of fresh ones, instead of joining them."""

    @property
    def replayed_updates(self) -> float:
        """If it `alternates`: mean number of updates from replayed unrolls after each one from fresh ones."""
        return 0.0


class Impala(AlgorithmSection):
    """IMPALA: V-trace actor-critic (arXiv:1802.01561), asynchronous."""

    rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the temporal differences")
    c_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the traces")
    policy_rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the policy gradient")
    trace_lambda: float = Field(1.0, ge=0, le=1, description="lambda of the traces; 1 in the paper")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.002), description="weight of the entropy bonus, or a schedule")


class ACER(AlgorithmSection):
    """Actor-critic with experience replay, Retrace and a trust region (arXiv:1611.01224)."""

    alternates = True

    replay_ratio: float = Field(
        4.0,
        ge=0,
        le=100,
        description="mean number of replayed updates after each fresh one (Poisson-distributed); 0: no replay",
    )
    truncation: float = Field(10.0, gt=0, description="c: truncation of the importance weights in the policy gradient")
    trust_region: float = Field(
        1.0, gt=0, description="delta: how far the gradient of a step may move the policy away from the average policy"
    )
    average_decay: float = Field(0.99, ge=0, le=1, description="alpha: decay of the average network per update")
    dueling_samples: int = Field(
        5,
        ge=1,
        le=1000,
        description="continuous actions: n, the number of actions sampled to estimate the mean advantage",
    )
    value_cost: float = Field(1.0, ge=0, description="weight of the Q loss")
    entropy_cost: Cost = Field(constant(0.001), description="weight of the entropy bonus, or a schedule")

    @property
    def replayed_updates(self) -> float:
        return self.replay_ratio


class A2C(AlgorithmSection):
    """Synchronous advantage actor-critic (arXiv:1602.01783), with GAE (arXiv:1506.02438)."""

    gae_lambda: float = Field(1.0, ge=0, le=1, description="lambda of GAE; 1: n-step returns")
    value_target: Literal["lambda", "n-step"] = Field(
        "lambda",
        description="value targets: lambda (lambda-returns with gae_lambda) or n-step (n-step returns, whatever "
        "gae_lambda is)",
    )
    normalise_advantages: bool = Field(
        False, description="normalise advantages to mean 0 and standard deviation 1 over each batch"
    )
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.01), description="weight of the entropy bonus, or a schedule")


class A3C(A2C):
    """Asynchronous advantage actor-critic (arXiv:1602.01783), as in GA3C (arXiv:1611.06256) or Hogwild."""

    hogwild: bool = Field(
        False,
        description="as published: each agent is a worker that acts and learns with its own network, and updates "
        "shared parameters without locks; false: one network acts and learns, as in GA3C",
    )
    unroll_lengths: Numbers | Literal["auto"] = Field(
        "auto",
        description="hogwild: unroll lengths, assigned to the workers in turn, such as 16 32 64; auto: "
        "algorithm.unroll_length",
    )
    share_statistics: bool = Field(
        True, description="hogwild: share the optimizer's moments and step count too; false: each worker has its own"
    )
    devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",),
        description="hogwild: devices of the workers' networks, assigned in turn, such as cuda:0 cuda:1; auto: "
        "system.device",
    )

    @model_validator(mode="after")
    def _workers_are_there(self) -> "A3C":
        plain = self.unroll_lengths == "auto" and self.share_statistics and self.devices == ("auto",)
        if not (self.hogwild or plain):
            raise ValueError("unroll_lengths, share_statistics and devices need hogwild = true")
        return self


Epochs = Annotated[int, Field(ge=1, le=100, description="passes over each batch")]
MinibatchSize = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000,
        description="approximate number of agent steps per optimizer step",
    ),
]


class PPO(AlgorithmSection):
    """Proximal policy optimisation (arXiv:1707.06347), synchronous, with GAE (arXiv:1506.02438)."""

    epochs: Epochs = 4
    minibatch_size: MinibatchSize = 256
    shuffle: Literal["auto", "steps", "unrolls"] = Field(
        "auto",
        description="what minibatches consist of: single steps of the whole batch, or whole unrolls; auto: steps, but "
        "unrolls with a recurrent core or a replay, which need them",
    )
    clip_range: Rate = Field(constant(0.2), description="epsilon: clip range of the probability ratio, or a schedule")
    value_clip_range: float = Field(
        0.0, ge=0, description="clip range of the change of values in an update; 0: no clipping"
    )
    kl_limit: float = Field(
        0.0, ge=0, description="end the update after a pass whose mean KL(old || new) exceeds this; 0: no limit"
    )
    gae_lambda: float = Field(0.95, ge=0, le=1, description="lambda of GAE (ppo), or of V-trace's traces (appo)")
    normalise_advantages: bool = Field(
        True, description="normalise advantages to mean 0 and standard deviation 1 over each batch"
    )
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.01), description="weight of the entropy bonus, or a schedule")


class APPO(PPO):
    """PPO's clipped objective with V-trace's targets (arXiv:1802.01561), asynchronous."""

    # as many optimizer steps as with PPO's four passes in minibatches of 256, at half of the cost (results/)
    epochs: Epochs = 2
    minibatch_size: MinibatchSize = 128
    entropy_cost: Cost = Field(constant(0.005), description="weight of the entropy bonus, or a schedule")
    rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the temporal differences")
    c_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the traces")


# All algorithms: the class of the same name as the section is in kartrl/algorithms/<name>.py.
ALGORITHMS: dict[str, type[AlgorithmSection]] = {
    "appo": APPO,
    "impala": Impala,
    "acer": ACER,
    "a3c": A3C,
    "ppo": PPO,
    "a2c": A2C,
}


class Algorithm(Section):
    """Which algorithm learns, and the settings that all algorithms share."""

    name: Literal[tuple(ALGORITHMS)] = Field(  # type: ignore[valid-type]
        "appo",
        description="asynchronous: appo (V-trace and PPO's clip), impala (V-trace), acer (replay), a3c; synchronous: "
        "ppo, a2c",
    )
    unroll_length: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = Field(
        "auto",
        description="steps per unroll (n in the papers); auto: 32; appo without predictors: up to 64 where an update "
        "would have fewer than 512 steps; fewer, but at least 8, where there are so many environments that it would "
        "have more than 1024, or where a replay holds fewer; always 32 with a recurrent core",
    )
    discount: Share = Field(
        constant(0.99), description="discount factor gamma, or a schedule (see optimizer.learning_rate)"
    )
    reward_scale: float = Field(1.0, gt=0, description="factor by which rewards are multiplied")
    reward_transform: Literal["auto", "none", "sign", "clip", "asymmetric", "optimistic"] = Field(
        "auto",
        description="then applied to rewards: none, sign, clip (to [-1, 1]), asymmetric (tanh times 0.5 above zero, "
        "0.3 below) or optimistic (IMPALA's: the same with 5 and 0.3); auto: clip for retro and the screens of Atari, "
        "else none",
    )
