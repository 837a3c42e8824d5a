"""The combinations of buttons that an integration allows, as stable-retro reads them."""

from collections.abc import Sequence
from math import prod

from kartrl.config.wording import nearest
from kartrl.errors import UserError

Groups = Sequence[Sequence[Sequence[str]]]  # groups of buttons, such as the directions; combinations; names


class Combinations:
    """Groups of buttons, of each of which one combination is held.

    Args:
        groups: as in the integration.
        buttons: the joypad's, by bit.
        source: the file, named in errors.

    Raises:
        UserError: there is no such button.
    """

    def __init__(self, groups: Groups, buttons: Sequence[str | None], source: str) -> None:
        by_mask: dict[int, list[int]] = {}
        for group in groups:
            masks = {encode(names, buttons, source) for names in group}
            whole = 0
            for mask in masks:
                whole |= mask
            by_mask.setdefault(whole, sorted(masks))  # stable-retro ignores another group of the same buttons
        self._groups = [(whole, by_mask[whole]) for whole in sorted(by_mask)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of combinations in each group."""
        return tuple(len(masks) for _, masks in self._groups)

    def discrete(self) -> list[int]:
        """The buttons that each action of stable-retro's Discrete space holds."""
        actions = []
        for action in range(prod(self.sizes)):
            held = 0
            for _, masks in self._groups:
                action, chosen = divmod(action, len(masks))
                held |= masks[chosen]
            actions.append(held)
        return actions

    def chosen(self, numbers: Sequence[int]) -> int:
        """The buttons that an action of stable-retro's MultiDiscrete space holds: a combination of each group."""
        held = 0
        for (_, masks), number in zip(self._groups, numbers, strict=True):
            held |= masks[number]
        return held

    def filtered(self, held: int) -> int:
        """The buttons that count: a group's only if together they are one of its combinations."""
        counting = 0
        for whole, masks in self._groups:
            if held & whole in masks:
                counting |= held & whole
        return counting


def encode(names: Sequence[str], buttons: Sequence[str | None], source: str) -> int:
    """The bit mask of buttons by name.

    Raises:
        UserError: the joypad has no such button.
    """
    known = [button for button in buttons if button is not None]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise UserError(f"{source}: no such button: {name!r}; the nearest is {near!r} (all: {', '.join(known)})")
    return sum(1 << buttons.index(name) for name in set(names))


def decode(held: int, buttons: Sequence[str | None]) -> str:
    """The buttons of a bit mask in words, as in `retro.actions`: `RIGHT+B`, or `none`."""
    return "+".join(name for bit, name in enumerate(buttons) if name is not None and held >> bit & 1) or "none"
