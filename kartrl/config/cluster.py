"""The section [cluster]: nodes of agents on other machines."""

from typing import Literal

from pydantic import Field

from kartrl.config.section import AutoInt, Section


class Cluster(Section):
    """Agents on other machines, through Ray (docs/cluster.md)."""

    ray: str = Field(
        "none",
        pattern=r"^[\w.:\[\]-]+$",
        description="Ray cluster that runs the agents (train --ray): HOST:PORT, auto (the one this machine belongs to, "
        "else a new one on this machine alone) or none",
    )
    nodes: AutoInt = Field(
        "auto",
        description="maximum number of nodes of agents (train --nodes), spread over the machines; auto: one per "
        "machine",
    )
    node_cpus: AutoInt = Field(
        "auto",
        description="CPUs per node; auto: those of its machine, divided among the nodes there. Ray's autoscaler is "
        "asked for this many per node; auto: one",
    )
    node_gpus: float = Field(
        0.0,
        ge=0,
        le=64,
        description="GPUs, or a fraction of one, for the predictors of each node on a machine that has any; 0: none",
    )
    compression: Literal["auto", "none", "lz4"] = Field(
        "auto",
        description="compression of images sent to the learner: lz4, none, or auto (lz4 from other machines, where "
        "installed)",
    )
