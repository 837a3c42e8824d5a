"""The sections of the configuration, one frozen model each, but those that have a file of their own."""

import os
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from kartrl.config.schedule import Rate, ramp
from kartrl.config.section import DAY, YEAR, AutoInt, Count, Numbers, Section, UserPath, Words
from kartrl.files import user_path


def _own(value: str) -> str:
    if re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", value) is None:
        raise ValueError("must be module:function")
    return value


Own = Annotated[str, AfterValidator(_own)]  # a function of the user's, in a module


class Run(Section):
    """How long a run lasts, and where its results are stored."""

    logs: UserPath = Field(
        "auto",
        min_length=1,
        description="folder that contains one folder per run; auto: the one that the environment variable KARTRL_LOGS "
        "names, else logs",
    )
    name: str = Field(
        "auto",
        pattern=r"^[^/\\.][^/\\]*$",
        description="name of the run's folder in logs; auto: from environment, seed and time",
    )
    init: UserPath = Field(
        "none",
        min_length=1,
        description="run (its best checkpoint), checkpoint file, exported folder or hf://USER/NAME whose weights a new "
        "run starts from (train --init); or none",
    )
    init_optimizer: bool = Field(False, description="start from its optimizer's state too (train --with-optimizer)")
    seed: int = Field(1, ge=0, lt=2**32, description="random seed of the network, the environments and sampling")
    agent_steps: int = Field(
        1_000_000, ge=1, le=10**15, description="end training after this many agent steps (actions chosen)"
    )
    reproducible: bool = Field(
        False,
        description="two runs with the same configuration, seed and number of cores end with the same weights, bit for "
        "bit; slower; needs evaluation.minutes = 0 and run.minutes = 0",
    )
    minutes: float = Field(0, ge=0, le=YEAR, description="also end training after this many minutes; 0: no limit")
    stop_return: float | Literal["none"] = Field(
        "none",
        description="also end training when the mean return of the newest run.stop_window training episodes is this or "
        "more, and an evaluation confirms it; none: never",
    )
    stop_window: int = Field(
        100, ge=1, le=10_000, description="number of training episodes in the mean of stop_return and patience"
    )
    stop_episodes: int = Field(
        100,
        ge=0,
        le=10_000,
        description="number of greedy episodes on the train circuits of an evaluation, whose mean must confirm "
        "stop_return while training continues, and does so if it does not; 0: end without it",
    )
    stop_episodes_total: int = Field(
        0, ge=0, le=10**12, description="also end training after this many training episodes; 0: no limit"
    )
    patience: int = Field(
        0,
        ge=0,
        le=10**15,
        description="also end training when the mean return of the newest run.stop_window training episodes has not "
        "been higher than before for this many agent steps; 0: never",
    )
    schedules: Literal["continue", "restart", "stretch"] = Field(
        "continue",
        description="what train --resume does with schedules: continue where they stood, restart, or stretch over the "
        "whole run, as if it had begun with the present limits; each resume continues unless told otherwise",
    )
    checkpoint_minutes: float = Field(1, gt=0, le=YEAR, description="minutes between checkpoints")
    keep_checkpoints: Count = Field(3, description="number of newest checkpoints to keep, in addition to the best")
    tracker: Literal["none", "wandb", "mlflow", "trackio"] = Field(
        "none",
        description="where to log scalars beside TensorBoard: wandb, mlflow, trackio or none (docs/tracking.md)",
    )

    @property
    def logs_folder(self) -> Path:
        return user_path(os.environ.get("KARTRL_LOGS") or "logs") if self.logs == "auto" else Path(self.logs)

    @model_validator(mode="after")
    def _optimizer_of_something(self) -> "Run":
        if self.init_optimizer and self.init == "none":
            raise ValueError("init_optimizer needs init: train --init RUN --with-optimizer")
        return self


class System(Section):
    """Processes, threads, batches and queues."""

    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="where the network runs: auto (the fastest device available), cpu, cuda or mps"
    )
    learners: int = Field(
        1,
        ge=1,
        le=64,
        description="learner processes that make each update together, each with a batch from its own agents "
        "(docs/learners.md); the numbers below are per learner",
    )
    devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",),
        description="devices of the learners' networks, assigned in turn, such as cuda:0 cuda:1; auto: system.device",
    )
    predictor_devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",),
        description="devices of the predictors, assigned to the learners in turn; auto: the same as their learner's",
    )
    agents: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        "auto", description="agent processes; auto: from the number of cores"
    )
    min_agents: AutoInt = Field(
        "auto", description="end the run when fewer agents than this are healthy; auto: half of them"
    )
    step_timeout: float = Field(
        60,
        gt=0,
        le=DAY,
        description="seconds that making, resetting or stepping an environment may take before its agent is replaced",
    )
    envs_per_agent: AutoInt = Field(
        "auto",
        description="environments per agent, which steps one half of them while the other half waits for actions (an "
        "odd number, and on a single core, all together); auto: up to 8, fewer if they are slow or training_batch_size "
        "needs it, and at most 4 for appo without predictors; with run.reproducible, as many as make up whole updates",
    )
    predictors: Annotated[int, Field(ge=0, le=16)] | Literal["auto"] = Field(
        "auto",
        description="predictor threads, which run the network on the observations of all agents; 0: each agent runs it "
        "itself, on the CPU; auto: 0 if the learner is on the CPU and agents have several environments, else 1",
    )
    trainers: AutoInt = Field(
        "auto",
        description="trainer threads; one at a time makes an update, the others assemble batches; auto: 2 for "
        "asynchronous algorithms with a GPU or a replay, else 1",
    )
    prediction_batch_size: AutoInt = Field(
        "auto", description="maximum number of observations in a forward pass; auto: the number of environments"
    )
    min_prediction_batch_size: AutoInt = Field(
        "auto",
        description="observations that a predictor waits for, if only briefly; auto: enough for an efficient forward "
        "pass",
    )
    training_batch_size: AutoInt = Field(
        "auto",
        description="unrolls per update; auto: as many as environments, for impala and acer a quarter of that; ppo and "
        "a2c accept only auto",
    )
    torch_threads: AutoInt = Field(
        "auto",
        description="threads of an update on CPUs, which share the parts of a batch, and of each PyTorch operation; "
        "auto: all cores for synchronous algorithms, else a quarter of them, and more for updates while agents wait "
        "for these",
    )
    max_policy_lag: AutoInt = Field(
        "auto",
        description="drop unrolls that began more than this many updates ago; auto: 4 times the lag expected from the "
        "sizes, at least 10",
    )


class Model(Section):
    """The network: an encoder, an optional recurrent core, and heads for policy and value."""

    fixed: ClassVar = True

    encoder: Literal["convolutional", "a3c", "nature", "a3g", "impala", "mlp"] | Own = Field(
        "convolutional",
        description="image encoder: convolutional (the layers below), a published one (a3c, nature, a3g, impala: deep "
        "and residual) or mlp (two layers on the pixels), and vectors use mlp; or module:function, one of your own for "
        "both (docs/library.md)",
    )
    channels: Numbers = Field((16, 32, 32), description="convolutional: output channels of each layer")
    kernels: Numbers = Field((8, 4, 3), description="convolutional: kernel size of each layer")
    strides: Numbers = Field((4, 2, 1), description="convolutional: stride of each layer")
    pooling: Literal["flatten", "average"] = Field(
        "flatten", description="flatten the convolutions' output, or average it over all positions"
    )
    hidden_size: int = Field(256, ge=1, le=65_536, description="units of the encoder's last layer and of the core")
    activation: Literal["relu", "tanh"] = Field(
        "relu", description="activation of the encoder's linear layers: relu or tanh; convolutions always have ReLU"
    )
    layer_norm: bool = Field(
        False, description="layer normalisation in the encoder's linear layers, before the activation"
    )
    core: Literal["lstm", "gru", "none"] | Own = Field(
        "none",
        description="recurrent core: lstm, gru, none for a feed-forward network, or module:function, one of your own",
    )
    bptt: bool = Field(
        True,
        description="lstm, gru: backpropagate through the steps of an unroll; false: stop gradients between steps, "
        "which is slower and makes it harder to learn what to remember",
    )
    critic: Literal["shared", "detached", "separate"] = Field(
        "shared",
        description="what the value head reads: the policy's encoder and core (shared), the same without passing "
        "gradients into them (detached), or its own encoder and core (separate)",
    )
    deviation: Literal["state", "free"] = Field(
        "state",
        description="continuous actions: the standard deviation is an output of the network (state), or a parameter "
        "independent of the observation (free)",
    )
    squash_actions: bool = Field(
        False,
        description="continuous actions: squash into the bounds by tanh; false: the environment clips them",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="precision of the convolutions in training: fp32, bf16 (weights stay fp32), or auto (bf16 if the "
        "hardware supports it and it was measured to be faster); fp32 where PyTorch's bf16 gives wrong values",
    )

    normalise_observations: bool = Field(
        False,
        description="subtract the running mean of each number or pixel, and divide by its running standard deviation",
    )
    normalise_returns: bool = Field(
        False, description="divide rewards by the running standard deviation of returns, so that values are of order 1"
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> "Model":
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ValueError("channels, kernels and strides must have the same length")
        return self


class Optimizer(Section):
    """The optimizer and its learning rate."""

    name: Literal["adam", "adamw", "rmsprop", "sgd"] = Field(
        "adam", description="adam, adamw, rmsprop (as in IMPALA and A3C) or sgd"
    )
    learning_rate: Rate = Field(
        ramp("linear", 1e-3, 1e-5),
        description="a number, or a schedule from the start to the end of the run: linear START END, or polynomial "
        "START END (of power 2), or piecewise AT VALUE AT VALUE ..., AT being fractions of the run",
    )
    kl_target: float = Field(
        0.0,
        ge=0,
        description="adapt the learning rate towards this KL(before || after) per update, in steps of 1.5 and within a "
        "factor of 30 of its schedule; 0: schedule only",
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of rmsprop and sgd")
    decay: float = Field(
        0.999, ge=0, lt=1, description="decay of the mean squared gradient (alpha in rmsprop, beta2 in adam)"
    )
    epsilon: float = Field(1e-5, gt=0, description="added to the denominator in rmsprop, adam and adamw")
    amsgrad: bool = Field(False, description="adam, adamw: divide by the maximum of all mean squared gradients so far")
    centered: bool = Field(
        False, description="rmsprop: divide by the gradient's standard deviation instead of its root mean square"
    )
    weight_decay: float = Field(0.0, ge=0, description="weight decay (L2 penalty)")
    gradient_clip: float = Field(0.5, ge=0, description="maximum global norm of the gradient; 0: no clipping")
    max_skipped_updates: int = Field(
        10,
        ge=1,
        description="after this many updates in a row were skipped for a non-finite loss or gradient, restore the last "
        "good weights; if that is needed again before training has recovered, end the run",
    )

    @model_validator(mode="after")
    def _variants_fit(self) -> "Optimizer":
        if self.amsgrad and self.name not in ("adam", "adamw"):
            raise ValueError(f"amsgrad is a variant of adam and adamw, not of {self.name}")
        if self.centered and self.name != "rmsprop":
            raise ValueError(f"centered is a variant of rmsprop, not of {self.name}")
        if self.momentum and self.name not in ("rmsprop", "sgd"):
            raise ValueError(f"momentum is a setting of rmsprop and sgd, not of {self.name}; set it to 0")
        return self


class Evaluation(Section):
    """Evaluation of the current policy on the train and test levels during training."""

    minutes: float = Field(1.0, ge=0, le=YEAR, description="minutes between evaluations; 0: no evaluations")
    episodes: Count = Field(
        1, description="episodes per level with greedy actions, and the same number with sampled actions"
    )
    levels: Count = Field(
        8,
        description="maximum number of train levels and of test levels per evaluation; the train levels are "
        "always the same and their mean return selects best.pt, test levels take turns until the last checkpoint "
        "drives all of them",
    )
    max_steps: int = Field(
        108_000,
        ge=1,
        le=10**9,
        description="agent steps after which an episode is truncated, also by evaluate and watch (--max-steps there)",
    )
    video_seconds: float = Field(
        12.0,
        ge=0,
        le=600,
        description="maximum length of each level's video in TensorBoard, in seconds; 0: no videos",
    )
