"""The sections of the algorithms: what they share, and one section each, with the names and defaults of its paper."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kartrl.config.schedule import Cost, Rate, Share, constant
from kartrl.config.section import Numbers, Section, Words


class Algorithm(Section):
    """Which algorithm learns, and what all of them share."""

    name: Literal["appo", "impala", "acer", "a3c", "ppo", "a2c"] = Field(
        "appo",
        description="asynchronous: appo (V-trace and PPO's clip), impala (V-trace), acer (replay), a3c; synchronous: "
        "ppo, a2c",
    )
    unroll_length: int = Field(32, ge=1, le=10_000, description="steps of one unroll (n in the papers)")
    discount: Share = Field(constant(0.99), description="gamma, or its schedule: see optimizer.learning_rate")
    reward_scale: float = Field(1.0, gt=0, description="rewards are multiplied by it")
    reward_transform: Literal["none", "sign", "clip", "asymmetric", "optimistic"] = Field(
        "none",
        description="then: none, sign, clip to [-1, 1], the seed's asymmetric tanh (0.5 above zero, 0.3 below), or "
        "IMPALA's optimistic one (5 above zero, 0.3 below)",
    )


class Impala(Section):
    """V-trace and the loss of IMPALA (arXiv:1802.01561)."""

    rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the temporal differences")
    c_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the trace")
    policy_rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights of the policy gradient")
    trace_lambda: float = Field(1.0, ge=0, le=1, description="lambda of the traces; 1 in the paper")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.002), description="weight of the entropy bonus, or its schedule")


class ACER(Section):
    """Actor-critic with experience replay (arXiv:1611.01224): Retrace, a trust region."""

    replay_ratio: float = Field(
        4.0, ge=0, le=100, description="mean number of replayed updates after each fresh one (Poisson); 0: no replay"
    )
    truncation: float = Field(10.0, gt=0, description="c: truncation of the importance weights of the policy gradient")
    trust_region: float = Field(
        1.0, gt=0, description="delta: how far a step's gradient may go from the average policy"
    )
    average_decay: float = Field(0.99, ge=0, le=1, description="alpha: decay of the average network at each update")
    dueling_samples: int = Field(
        5, ge=1, le=1000, description="continuous actions: n, actions drawn for the mean of the advantages"
    )
    value_cost: float = Field(1.0, ge=0, description="weight of the error of Q")
    entropy_cost: Cost = Field(constant(0.001), description="weight of the entropy bonus, or its schedule")


class A2C(Section):
    """Synchronous advantage actor-critic (arXiv:1602.01783), with GAE (arXiv:1506.02438)."""

    gae_lambda: float = Field(1.0, ge=0, le=1, description="lambda of GAE; 1: n-step returns")
    value_target: Literal["lambda", "n-step"] = Field(
        "lambda", description="what values learn: the return of the same lambda, or n-step returns whatever lambda is"
    )
    normalise_advantages: bool = Field(False, description="to mean 0 and deviation 1 over each batch")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.01), description="weight of the entropy bonus, or its schedule")


class A3C(A2C):
    """Asynchronous advantage actor-critic (arXiv:1602.01783): as in GA3C (arXiv:1611.06256), or Hogwild."""

    hogwild: bool = Field(
        False,
        description="as published: each agent is a worker that acts and learns with a network of its own, and updates "
        "parameters that all share, without locks; false: one network acts and learns, as in GA3C",
    )
    unroll_lengths: Numbers | Literal["auto"] = Field(
        "auto", description="hogwild: steps of the workers' unrolls, in turn: 16 32 64; auto: algorithm.unroll_length"
    )
    share_statistics: bool = Field(
        True, description="hogwild: the optimizer's moments and count of steps are shared too; false: each worker's own"
    )
    devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",), description="hogwild: where the workers' networks run, in turn: cuda:0 cuda:1; auto: system.device"
    )

    @model_validator(mode="after")
    def _workers_are_there(self) -> "A3C":
        plain = self.unroll_lengths == "auto" and self.share_statistics and self.devices == ("auto",)
        if not (self.hogwild or plain):
            raise ValueError("unroll_lengths, share_statistics and devices are of workers: they need hogwild = true")
        return self


def _minibatch_size(steps: int) -> Any:
    words = "agent steps of one optimizer step, about: a pass is divided by whole unrolls"
    return Field(steps, ge=1, le=1_000_000, description=words)


class PPO(Section):
    """Proximal policy optimisation (arXiv:1707.06347), synchronous, with GAE (arXiv:1506.02438)."""

    epochs: int = Field(4, ge=1, le=100, description="passes over each batch")
    minibatch_size: int = _minibatch_size(256)
    clip_range: Rate = Field(
        constant(0.2), description="epsilon: how far the probability ratio counts, or its schedule"
    )
    value_clip_range: float = Field(0.0, ge=0, description="how far values may move in an update; 0: no limit")
    kl_limit: float = Field(0.0, ge=0, description="mean KL(old || new) of a pass that ends the update; 0: no limit")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="lambda of GAE, or of V-trace's traces")
    normalise_advantages: bool = Field(True, description="to mean 0 and deviation 1 over each batch")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: Cost = Field(constant(0.01), description="weight of the entropy bonus, or its schedule")


class APPO(PPO):
    """PPO's clip on V-trace's targets (arXiv:1802.01561), asynchronous."""

    minibatch_size: int = _minibatch_size(128)
    rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the temporal differences")
    c_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the trace")
