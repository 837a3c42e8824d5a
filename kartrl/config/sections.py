"""The sections of the configuration, one frozen model each; those of the algorithms are in `algorithms`."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from kartrl.config.schedule import Rate, Schedule
from kartrl.config.section import DAY, YEAR, AutoInt, Count, Numbers, Section, Words


def _function(value: str) -> str:
    if value != "none" and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", value) is None:
        raise ValueError("expected module:function, such as minigrid.wrappers:ImgObsWrapper, or none")
    return value


class Run(Section):
    """How long a run lasts and where it keeps its results."""

    logs: str = Field("logs", min_length=1, description="folder that holds one folder per run")
    name: str = Field(
        "auto", pattern=r"^[^/\\.][^/\\]*$", description="the run's folder in logs; auto: environment, seed and time"
    )
    init: str = Field(
        "none",
        min_length=1,
        description="begin a new run with the weights of this checkpoint file or run (its best): train --init; or none",
    )
    init_optimizer: bool = Field(False, description="begin with its optimizer's state too: train --with-optimizer")
    seed: int = Field(1, ge=0, lt=2**32, description="seeds the network, the environments and the sampling")
    agent_steps: int = Field(
        1_000_000, ge=1, le=10**15, description="training ends after this many agent steps (actions chosen)"
    )
    reproducible: bool = Field(
        False,
        description="two runs with the same configuration, seed and number of cores end with the same weights, bit for "
        "bit; slower",
    )
    minutes: float = Field(0, ge=0, le=YEAR, description="or after this many minutes of training; 0: no limit")
    checkpoint_minutes: float = Field(1, gt=0, le=YEAR, description="minutes between checkpoints")
    keep_checkpoints: Count = Field(3, description="how many of the newest checkpoints are kept, beside the best")
    tracker: Literal["none", "wandb", "mlflow"] = Field(
        "none", description="where scalars go beside TensorBoard: wandb, mlflow or none (docs/tracking.md)"
    )

    @model_validator(mode="after")
    def _optimizer_of_something(self) -> "Run":
        if self.init_optimizer and self.init == "none":
            raise ValueError("init_optimizer needs init: train --init RUN --with-optimizer")
        return self


class System(Section):
    """Processes, threads, batches and queues."""

    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="where the network runs: auto (the fastest there is), cpu, cuda or mps"
    )
    learners: int = Field(
        1,
        ge=1,
        le=64,
        description="learner processes that make each update together, each from a batch of its own agents "
        "(docs/learners.md); numbers below are for each of them",
    )
    devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",), description="where the learners' networks run, in turn: cuda:0 cuda:1; auto: system.device"
    )
    predictor_devices: Annotated[Words, Field(min_length=1)] = Field(
        ("auto",), description="where the predictors of each learner run, in turn; auto: where their learner does"
    )
    agents: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        "auto", description="agent processes; auto: from the cores"
    )
    min_agents: AutoInt = Field("auto", description="agents that must be healthy, or the run ends; auto: half of them")
    step_timeout: float = Field(
        60,
        gt=0,
        le=DAY,
        description="seconds for a step of an environment, or to come up, after which its agent is replaced",
    )
    envs_per_agent: AutoInt = Field(
        "auto", description="environments that one agent steps, half of them while the others wait"
    )
    predictors: int = Field(1, ge=1, le=16, description="predictor threads")
    trainers: AutoInt = Field(
        "auto",
        description="trainer threads; one at a time owns the optimizer, the others assemble batches; auto: 2 with a "
        "GPU, else 1",
    )
    prediction_batch_size: AutoInt = Field(
        "auto", description="observations in one forward pass at most; auto: as many as environments"
    )
    min_prediction_batch_size: AutoInt = Field(
        "auto",
        description="observations that a predictor waits for, if only for a moment; auto: what makes a forward pass "
        "cheap",
    )
    training_batch_size: AutoInt = Field(
        "auto", description="unrolls in one update; auto: impala a quarter of the environments, others all"
    )
    torch_threads: AutoInt = Field(
        "auto", description="threads inside one PyTorch operation; auto: 1 on small machines"
    )
    controller: bool = Field(
        False, description="for some minutes, look for faster numbers of running agents and of observations waited for"
    )
    max_policy_lag: AutoInt = Field(
        "auto",
        description="updates since an unroll's first step beyond which it is dropped, and mean that the controller "
        "accepts; auto: 4 times what the sizes lead to, at least 10",
    )


class Environment(Section):
    """The world, and what the agent sees of it."""

    id: str = Field(
        "kartrl/Kart-v0",
        min_length=1,
        description="Gymnasium id: kartrl/Kart-v0, CartPole-v1, ALE/Pong-v5, ...; module:Id imports the module first",
    )
    kwargs: dict[str, Any] = Field(
        {}, description="arguments of its constructor, a key for each: kwargs.continuous = false, kwargs.map_name = 8x8"
    )
    wrapper: Annotated[str, AfterValidator(_function)] = Field(
        "none", description="module:function, called with the environment, that returns it wrapped; none: as it is"
    )
    game: Literal["auto", "bundled", "cartridge"] = Field(
        "auto", description="kart: bundled, cartridge (an imported ROM), or auto (the cartridge where it is imported)"
    )
    frame_skip: int = Field(5, ge=1, le=60, description="frames for which an action is held")
    frame_stack: int = Field(1, ge=1, le=16, description="newest pictures seen at once")
    height: int = Field(54, ge=1, le=512, description="rows of the observation")
    width: int = Field(54, ge=1, le=512, description="columns of the observation")
    crop_top: int = Field(36, ge=0, le=223, description="kart: first row of the screen that is seen; above is the sky")
    crop_bottom: int = Field(106, ge=1, le=224, description="kart: row after the last that is seen; below is the map")
    grayscale: bool = Field(True, description="one grey channel rather than three colours")
    noop_max: int = Field(
        30,
        ge=0,
        le=3600,
        description="at most this many frames (drawn at random) of idling, or for the kart of one drawn action, begin "
        "an episode",
    )
    life_loss_ends: bool = Field(
        True,
        description="Atari: for the learner an episode ends with each life; returns count whole games all the same",
    )
    random_start: bool = Field(True, description="kart: training episodes begin at a checkpoint drawn at random")
    circuit_sampling: Literal["episodes", "steps"] = Field(
        "episodes",
        description="kart: what all circuits get as much of, episodes or steps; episodes on hard ones are short",
    )
    opponents: int = Field(
        0,
        ge=0,
        le=7,
        description="kart: how many other karts race; one starts behind them (bundled game only)",
    )
    time_limit: float = Field(
        300, gt=0, le=DAY, description="kart: seconds on the race clock after which an episode is truncated"
    )
    no_progress_limit: float = Field(
        3, gt=0, le=DAY, description="kart: seconds without a new checkpoint after which an episode is truncated"
    )
    actions: Words = Field(
        ("none", "left", "right", "left+B", "right+B", "left+Y", "right+Y", "left+B+L", "right+B+L"),
        min_length=2,
        description="kart: the buttons of each action (B accelerates, Y brakes, L hops and slides)",
    )

    @model_validator(mode="after")
    def _crop_is_not_empty(self) -> "Environment":
        if self.crop_top >= self.crop_bottom:
            raise ValueError("crop_top must be less than crop_bottom")
        return self


class Reward(Section):
    """What the kart is rewarded for; the sum of a step is cut to [-bound, bound]."""

    kind: Literal["shaped", "checkpoint"] = Field(
        "shaped", description="shaped (the terms below) or checkpoint (the seed's: only checkpoints count)"
    )
    progress: float = Field(10.0, description="for each lap's worth of new checkpoints")
    time: float = Field(-0.1, description="for each second")
    off_road: float = Field(-0.2, description="for each second off the road")
    wall: float = Field(-0.2, description="for each collision")
    wrong_way: float = Field(-0.2, description="for each second in the wrong direction")
    finish: float = Field(0.0, description="for finishing the race")
    bound: float = Field(1.0, gt=0, description="largest size of one step's reward")


class Model(Section):
    """The network: an encoder, a recurrent core or none, and heads for policy and value."""

    encoder: Literal["convolutional", "a3c", "nature", "a3g", "impala", "mlp"] = Field(
        "convolutional",
        description="of images: convolutional (the layers below), those of papers: a3c, nature, a3g, impala (deep, "
        "residual), or mlp (two layers on the pixels); vectors have the mlp",
    )
    channels: Numbers = Field((16, 32, 32), description="convolutional: output channels of each layer")
    kernels: Numbers = Field((8, 4, 3), description="convolutional: kernel size of each layer")
    strides: Numbers = Field((4, 2, 1), description="convolutional: stride of each layer")
    pooling: Literal["flatten", "average"] = Field(
        "flatten", description="what the convolutions have made of all places: flatten it, or take its average"
    )
    hidden_size: int = Field(256, ge=1, le=65_536, description="units of the encoder's last layer and of the core")
    layer_norm: bool = Field(False, description="layer normalisation in the encoder's linear layers, before the ReLU")
    core: Literal["lstm", "gru", "none"] = Field(
        "none", description="what remembers: lstm, gru, or none for a feed-forward network"
    )
    bptt: bool = Field(
        True,
        description="lstm, gru: gradients flow back through the steps of an unroll; false: each step learns from the "
        "state before it as given, slower and with less memory of causes",
    )
    critic: Literal["shared", "detached", "separate"] = Field(
        "shared",
        description="what the value is made from: the policy's encoder and core (shared), the same without a gradient "
        "into them (detached), or an encoder and core of its own (separate)",
    )
    deviation: Literal["state", "free"] = Field(
        "state",
        description="continuous actions: their standard deviation is an output of the network (state), or parameters "
        "that are the same everywhere (free)",
    )
    squash_actions: bool = Field(
        False, description="continuous actions: squashed into their bounds by tanh; false: clipped by the environment"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="of the convolutions: fp32, bf16 (weights stay fp32), or auto: bf16 where hardware multiplies it "
        "and it was measured faster",
    )

    normalise_observations: bool = Field(
        False, description="vectors only: subtract their running mean and divide by their running deviation"
    )
    normalise_returns: bool = Field(
        False, description="divide rewards by the running deviation of returns, so that values are of ordinary size"
    )
    torchscript: bool = Field(
        True, description="compile the network with TorchScript, where that works; false: run it eagerly"
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> "Model":
        if not len(self.channels) == len(self.kernels) == len(self.strides):
            raise ValueError("channels, kernels and strides must have the same length")
        return self


class Optimizer(Section):
    """The update rule."""

    name: Literal[
        "adam",
        "rmsprop",
        "sgd",
        "adadelta",
        "adafactor",
        "adagrad",
        "adamax",
        "adamw",
        "asgd",
        "nadam",
        "radam",
        "rprop",
    ] = Field(
        "adam",
        description="adam, rmsprop (IMPALA's and A3C's), sgd, or another of torch's: adadelta, adafactor, adagrad, "
        "adamax, adamw, asgd, nadam, radam, rprop",
    )
    learning_rate: Rate = Field(
        Schedule("linear", 7e-4, 1e-5),
        description="one number; or a schedule from the start to the end of the run: linear START END, or polynomial "
        "START END (of power 2)",
    )
    kl_target: float = Field(
        0.0,
        ge=0,
        description="KL(before || after) of an update to which the learning rate is adapted, in steps of 1.5 within a "
        "factor of 30 of the schedule; 0: the schedule alone",
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of rmsprop and sgd")
    decay: float = Field(0.999, ge=0, lt=1, description="decay of the mean square in rmsprop (beta2 in adam)")
    epsilon: float = Field(1e-5, gt=0, description="added to the denominator of rmsprop, adam and their like")
    amsgrad: bool = Field(False, description="adam, adamw: divide by the largest mean square so far")
    centered: bool = Field(False, description="rmsprop: divide by the deviation rather than the mean square")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty")
    gradient_clip: float = Field(0.5, ge=0, description="largest global norm of the gradient; 0: no clipping")
    max_skipped_updates: int = Field(
        10,
        ge=1,
        description="updates skipped in a row, for a loss or gradient that is not finite, until weights go back to the "
        "last good ones; once: then the run ends",
    )

    @model_validator(mode="after")
    def _variants_fit(self) -> "Optimizer":
        if self.amsgrad and self.name not in ("adam", "adamw"):
            raise ValueError(f"amsgrad is a variant of adam and adamw, not of {self.name}")
        if self.centered and self.name != "rmsprop":
            raise ValueError(f"centered is a variant of rmsprop, not of {self.name}")
        return self


class Evaluation(Section):
    """Driving the current policy on the train and test circuits while training goes on."""

    minutes: float = Field(1.0, ge=0, le=YEAR, description="minutes between evaluations; 0: none")
    episodes: Count = Field(
        1, description="episodes on each circuit with the likeliest actions, and as many with sampled ones"
    )
    circuits: Count = Field(
        8,
        description="at most so many train and so many test circuits each time: always the same train circuits, by "
        "whose mean return best.pt is chosen, and test circuits in turn",
    )
    video_seconds: float = Field(
        12.0, ge=0, le=600, description="length of the video of each circuit in TensorBoard; 0: none"
    )
