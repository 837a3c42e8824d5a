"""Encoder, LSTM, and heads for policy and value."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from kartrl.config import Model
from kartrl.models.encoders import make_encoder
from kartrl.models.scripting import export


class ActorCritic(nn.Module):
    """The network of IMPALA's small agent, with the recurrent state of a slot in one row of one tensor.

    The state is float32 [B, S], S = 2 * hidden_size: the LSTM's output, then its cell.
    """

    def __init__(self, section: Model, observation_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        self.encoder = make_encoder(section, observation_shape)
        self.lstm = nn.LSTMCell(section.hidden_size, section.hidden_size)
        self.policy = nn.Linear(section.hidden_size, num_actions)
        self.baseline = nn.Linear(section.hidden_size, 1)
        self.hidden_size = section.hidden_size
        nn.init.orthogonal_(self.policy.weight, 0.01)  # begin with all actions about equally likely
        nn.init.zeros_(self.policy.bias)
        nn.init.orthogonal_(self.baseline.weight, 1.0)
        nn.init.zeros_(self.baseline.bias)

    @export
    def initial_state(self, batch: int) -> Tensor:
        """The recurrent state at the start of an episode, float32 [batch, S] of zeros."""
        return torch.zeros(batch, 2 * self.hidden_size, device=self.policy.weight.device)

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
        logits, baseline, state = self.forward(observation.unsqueeze(0), reset.unsqueeze(0), state)
        return logits[0], baseline[0], state

    def forward(self, observation: Tensor, reset: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """An unroll of T steps: as `step`, with a leading dimension T on all but the state."""
        length, batch = reset.shape[0], reset.shape[1]
        features = self.encoder(observation.flatten(0, 1))
        # The input's share of the gates does not depend on the state: one matrix product serves all T steps.
        inputs = functional.linear(features, self.lstm.weight_ih, self.lstm.bias_ih + self.lstm.bias_hh)
        inputs = inputs.view(length, batch, 4 * self.hidden_size)
        keep = (~reset).to(state.dtype).unsqueeze(2)
        output, cell = state.chunk(2, 1)
        outputs: list[Tensor] = []
        for t in range(length):
            output, cell = output * keep[t], cell * keep[t]
            gates = inputs[t] + functional.linear(output, self.lstm.weight_hh)
            enter, forget, candidate, leave = gates.chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
            output = torch.sigmoid(leave) * torch.tanh(cell)
            outputs.append(output)
        core = torch.stack(outputs)
        return self.policy(core), self.baseline(core).squeeze(2), torch.cat([output, cell], 1)
