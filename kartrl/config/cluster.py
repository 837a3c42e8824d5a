"""The section of nodes of agents."""

from typing import Literal

from pydantic import Field

from kartrl.config.section import AutoInt, Section


class Cluster(Section):
    """Agents on other machines, through Ray (docs/cluster.md)."""

    ray: str = Field(
        "none",
        pattern=r"^[\w.:\[\]-]+$",
        description="whose machines act: HOST:PORT, auto (the Ray that runs here, else this machine's own), or none: "
        "train --ray",
    )
    nodes: AutoInt = Field(
        "auto", description="nodes of agents at most, spread over the machines; auto: one on each: train --nodes"
    )
    node_cpus: AutoInt = Field(
        "auto",
        description="CPUs of a node; auto: its machine's, shared by the nodes there. Ray's autoscaler is asked for so "
        "many for each node; auto: one",
    )
    node_gpus: float = Field(
        0.0,
        ge=0,
        le=64,
        description="GPUs, or a part of one, that each node's predictors take where its machine has any; 0: none",
    )
    compression: Literal["auto", "none", "lz4"] = Field(
        "auto", description="of images on their way to the learner: lz4, none, or auto: lz4 from other machines"
    )
