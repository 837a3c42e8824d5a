"""Recurrent cores, between encoder and heads. The state of a slot is one row of one tensor, float32 [B, S]."""

from typing import Final

import torch
from torch import Tensor, nn

from kartrl.config import Model


class NoCore(nn.Module):
    """Remembers nothing: S = 0."""

    state_size: Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.state_size = 0

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `LstmCore`."""
        return features, state

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `LstmCore`."""
        return features, state


class LstmCore(nn.Module):
    """An LSTM; the state is its output, then its cell: S = 2 * size."""

    state_size: Final[int]

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size)
        self.state_size = 2 * size

    def step(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step from features [B, size]; where `first`, bool [B], the state is zeroed before it."""
        output, cell = (state * (~first).to(state.dtype).unsqueeze(1)).chunk(2, 1)
        lstm = self.lstm  # a cell rather than the layer, which prepares its weights anew at each call
        weights = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        output, cell = torch.lstm_cell(features, (output, cell), *weights)
        return output, torch.cat([output, cell], 1)

    def unroll(self, features: Tensor, first: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """All steps of features [T, B, size], `first` [T, B], from state [B, S]: outputs [T, B, size], state [B, S].

        The library's fused recurrence knows no resets, so it runs from one step with a reset to the next.
        """
        resets: list[int] = torch.nonzero(first[1:].any(1)).flatten().tolist()
        starts = [0] + [t + 1 for t in resets]
        output, cell = state.unsqueeze(0).chunk(2, 2)
        outputs: list[Tensor] = []
        for index in range(len(starts)):
            start = starts[index]
            end = starts[index + 1] if index + 1 < len(starts) else features.shape[0]
            keep = (~first[start]).to(state.dtype).unsqueeze(1)
            part, (output, cell) = self.lstm(features[start:end], (output * keep, cell * keep))
            outputs.append(part)
        return torch.cat(outputs), torch.cat([output, cell], 2).squeeze(0)


def make_core(section: Model) -> nn.Module:
    """The core that the configuration names, for features of `hidden_size`."""
    return LstmCore(section.hidden_size) if section.core == "lstm" else NoCore()
