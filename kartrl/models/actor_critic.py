"""Encoder, recurrent core, and heads for policy and value."""

from typing import Final

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.models.encoders import make_encoder
from kartrl.models.scripting import export


class ActorCritic(nn.Module):
    """The network of IMPALA's small agent, with the recurrent state of a slot in one row of one tensor.

    The state is float32 [B, S]: with core = lstm the LSTM's output, then its cell, S = 2 * hidden_size; else S = 0.
    """

    recurrent: Final[bool]

    def __init__(self, section: Model, observation_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        self.recurrent = section.core == "lstm"
        self.encoder = make_encoder(section, observation_shape)
        self.lstm = nn.LSTM(section.hidden_size, section.hidden_size) if self.recurrent else nn.Identity()
        self.policy = nn.Linear(section.hidden_size, num_actions)
        self.baseline = nn.Linear(section.hidden_size, 1)
        self.state_size = 2 * section.hidden_size if self.recurrent else 0
        nn.init.orthogonal_(self.policy.weight, 0.01)  # begin with all actions about equally likely
        nn.init.zeros_(self.policy.bias)
        nn.init.orthogonal_(self.baseline.weight, 1.0)
        nn.init.zeros_(self.baseline.bias)

    @export
    def initial_state(self, batch: int) -> Tensor:
        """The recurrent state at the start of an episode, float32 [batch, S] of zeros."""
        return torch.zeros(batch, self.state_size, device=self.policy.weight.device)

    @export
    def step(self, observation: Tensor, reset: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step of B environments.

        Args:
            observation: uint8 [B, H, W, C] or float32 [B, D].
            reset: bool [B]; where True an episode begins here, and the state is zeroed first.
            state: float32 [B, S].

        Returns:
            Logits [B, A], baseline [B], next state [B, S].
        """
        features = self.encoder(observation)
        if self.recurrent:
            output, cell = (state * (~reset).to(state.dtype).unsqueeze(1)).chunk(2, 1)
            lstm = self.lstm  # a cell rather than the layer, which prepares its weights anew at each call
            weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
            features, cell = torch.lstm_cell(features, (output, cell), *weights)
            state = torch.cat([features, cell], 1)
        return self.policy(features), self.baseline(features).squeeze(1), state

    @export
    def act(self, observation: Tensor, reset: Tensor, state: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`step`, and actions sampled from the policy.

        Args:
            noise: float32 [B, A], drawn from the exponential distribution of rate 1; the action of the largest
                pi(a) / noise(a) is a sample of the policy.

        Returns:
            float32 [B, 2] of actions (exact: they are small) and their log-probabilities, in one tensor so that one
            copy brings it back; next state [B, S].
        """
        logits, _, state = self.step(observation, reset, state)
        log_policy = logits.log_softmax(1)
        action = (log_policy - noise.log()).argmax(1, keepdim=True)
        return torch.cat([action.to(torch.float32), log_policy.gather(1, action)], 1), state

    def forward(self, observation: Tensor, reset: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """An unroll of T + 1 steps: as `step`, with a leading dimension T + 1 on all but the state.

        The last step only gives the value to bootstrap from, through which no gradient flows in V-trace; none is computed.
        """
        length, batch = reset.shape[0] - 1, reset.shape[1]
        features = self.encoder(observation[:length].flatten(0, 1)).unflatten(0, [length, batch])
        with torch.no_grad():
            last = self.encoder(observation[length])
        core = torch.cat([features, last.unsqueeze(0)])
        if self.recurrent:
            # Between episode ends the library's fused recurrence runs; it knows no resets.
            ends: list[int] = torch.nonzero(reset[1:].any(1)).flatten().tolist()
            core, state = self._recur(core, reset, state, [0] + [t + 1 for t in ends])
        return self.policy(core), self.baseline(core).squeeze(2), state

    def _recur(self, inputs: Tensor, reset: Tensor, state: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        """The LSTM over inputs [T, B, hidden_size] from state [B, S], in stretches that begin at `starts`; only there may `reset` hold."""
        output, cell = state.unsqueeze(0).chunk(2, 2)
        outputs: list[Tensor] = []
        for index in range(len(starts)):
            start = starts[index]
            end = starts[index + 1] if index + 1 < len(starts) else inputs.shape[0]
            keep = (~reset[start]).to(state.dtype).unsqueeze(1)
            part, (output, cell) = self.lstm(inputs[start:end], (output * keep, cell * keep))
            outputs.append(part)
        return torch.cat(outputs), torch.cat([output, cell], 2).squeeze(0)
