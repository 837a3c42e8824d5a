"""Recurrent cores, between encoder and heads. The state of an environment is one row of a tensor, float32 [B, S]."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kartrl.config import Model
from kartrl.models.own_parts import make_own_core


class NoCore(nn.Module):
    """No recurrence: S = 0."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.state_size, self.size = 0, features

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return features, state

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return features, state


class RecurrentCore(nn.Module):
    """What `LstmCore` and `GruCore` have in common.

    Args:
        bptt: gradients flow back through the steps of an unroll; else each step takes the previous state as given.
    """

    def __init__(self, bptt: bool) -> None:
        super().__init__()
        self.bptt = bptt

    def by_steps(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """`unroll`, step by step, whatever `first` is: no need to wait for a GPU to know where the resets are."""
        outputs: list[Tensor] = []
        for t in range(first.shape[0]):
            if not self.bptt:
                state = state.detach()
            output, state = self.step(features[t], first[t], state)
            outputs.append(output)
        return torch.stack(outputs), state


class LstmCore(RecurrentCore):
    """An LSTM; its state is the output followed by the cell: S = 2 * size."""

    def __init__(self, features: int, size: int, bptt: bool) -> None:
        super().__init__(bptt)
        self.lstm = nn.LSTM(features, size)
        self.state_size, self.size = 2 * size, size

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step on features [B, features]; where `first`, bool [B], is True, the state is zeroed first.

        Returns:
            Output [B, size], next state [B, S].
        """
        output, cell = (state * (~first).to(state.dtype).unsqueeze(1)).chunk(2, 1)
        lstm = self.lstm  # the cell rather than the layer, which prepares its weights again at each call
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        output, cell = torch.lstm_cell(features, (output, cell), *weights)
        return output, torch.cat([output, cell], 1)

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of features [T, B, features], `first` [T, B], from state [B, S]: [T, B, size], state [B, S].

        torch's fused recurrence does not support resets, so on a CPU it runs from one step with a reset to the next; on
        a GPU finding these steps would mean waiting for the device. It always backpropagates through time.
        """
        if first.is_cuda or not self.bptt:
            return self.by_steps(features, first, state)
        output, cell = state.unsqueeze(0).chunk(2, 2)
        outputs: list[Tensor] = []
        starts = _resets(first)
        for index in range(len(starts) - 1):
            keep = (~first[starts[index]]).to(state.dtype).unsqueeze(1)
            part, (output, cell) = self.lstm(features[starts[index] : starts[index + 1]], (output * keep, cell * keep))
            outputs.append(part)
        return torch.cat(outputs), torch.cat([output, cell], 2).squeeze(0)


class GruCore(RecurrentCore):
    """A gated recurrent unit (arXiv:1406.1078); its state is the output: S = size."""

    def __init__(self, features: int, size: int, bptt: bool) -> None:
        super().__init__(bptt)
        self.gru = nn.GRU(features, size)
        self.state_size, self.size = size, size

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        gru = self.gru
        before = state * (~first).to(state.dtype).unsqueeze(1)
        weights = (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
        output = torch.gru_cell(features, before, *weights)
        return output, output

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if first.is_cuda or not self.bptt:
            return self.by_steps(features, first, state)
        state = state.unsqueeze(0)
        outputs: list[Tensor] = []
        starts = _resets(first)
        for index in range(len(starts) - 1):
            keep = (~first[starts[index]]).to(state.dtype).unsqueeze(1)
            part, state = self.gru(features[starts[index] : starts[index + 1]], state * keep)
            outputs.append(part)
        return torch.cat(outputs), state.squeeze(0)


class OwnCore(RecurrentCore):
    """A core of the user's own; see `make_own_core`."""

    def __init__(self, section: Model, features: int) -> None:
        super().__init__(section.bptt)
        self.module, self.size, self.state_size = make_own_core(section, features)

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.module(features, state * (~first).to(state.dtype).unsqueeze(1))

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.by_steps(features, first, state)


def _resets(first: Tensor) -> list[int]:
    """0, the later steps at which any unroll has a reset, and T; `first` is bool [T, B]."""
    resets: list[int] = torch.nonzero(first[1:].any(1)).flatten().tolist()
    return [0] + [t + 1 for t in resets] + [first.shape[0]]


CORES: dict[str, Callable[[int, int, bool], nn.Module]] = {
    "none": lambda features, *_: NoCore(features),
    "lstm": LstmCore,
    "gru": GruCore,
}


def make_core(section: Model, features: int) -> nn.Module:
    """Make the core that the configuration names, for this many features, of `hidden_size`."""
    if section.core not in CORES:
        return OwnCore(section, features)
    return CORES[section.core](features, section.hidden_size, section.bptt)
