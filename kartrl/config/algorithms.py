"""The sections of the algorithms: what they share, and one section each, with the names and defaults of its paper."""

from typing import Literal

from pydantic import Field

from kartrl.config.section import Section


class Algorithm(Section):
    """Which algorithm learns, and what all of them share."""

    name: Literal["impala", "a2c"] = Field("impala", description="impala (asynchronous, V-trace) or a2c (synchronous)")
    unroll_length: int = Field(20, ge=1, description="steps of one unroll (n in the papers)")
    discount: float = Field(0.99, ge=0, le=1, description="gamma")
    reward_transform: Literal["none", "clip", "asymmetric"] = Field(
        "none", description="none, clip to [-1, 1], or the seed's asymmetric tanh (0.5 above zero, 0.3 below)"
    )


class Impala(Section):
    """V-trace and the loss of IMPALA (arXiv:1802.01561)."""

    rho_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the temporal differences")
    c_bar: float = Field(1.0, gt=0, description="clip of the importance weights in the trace")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: float = Field(0.002, ge=0, description="weight of the entropy bonus")


class A2C(Section):
    """Synchronous advantage actor-critic (arXiv:1602.01783), with GAE (arXiv:1506.02438)."""

    gae_lambda: float = Field(1.0, ge=0, le=1, description="lambda of GAE; 1: n-step returns")
    normalise_advantages: bool = Field(False, description="to mean 0 and deviation 1 over each batch")
    value_cost: float = Field(0.5, ge=0, description="weight of the value loss")
    entropy_cost: float = Field(0.01, ge=0, description="weight of the entropy bonus")
