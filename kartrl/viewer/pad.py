"""Maps keys and gamepads to the buttons of the console's joypad."""

from collections.abc import Iterable

import pygame
from pygame._sdl2 import controller

from kartrl.console.libretro import BUTTONS

BIT = {name: 1 << place for place, name in enumerate(BUTTONS)}
KEYS = {
    pygame.K_LEFT: "LEFT", pygame.K_RIGHT: "RIGHT", pygame.K_UP: "UP", pygame.K_DOWN: "DOWN",
    pygame.K_x: "B", pygame.K_c: "Y", pygame.K_v: "A", pygame.K_d: "X",
    pygame.K_LSHIFT: "L", pygame.K_RSHIFT: "L", pygame.K_SPACE: "R",
    pygame.K_RETURN: "START", pygame.K_BACKSPACE: "SELECT",
}  # fmt: skip
# In games that use the D-pad for steering only, the arrow keys also drive and brake.
ARROWS = {pygame.K_UP: "B", pygame.K_DOWN: "Y"}
# SDL names buttons by their position on an Xbox gamepad: its A is where the console's joypad has B.
PAD_BUTTONS = {
    pygame.CONTROLLER_BUTTON_A: "B", pygame.CONTROLLER_BUTTON_X: "Y",
    pygame.CONTROLLER_BUTTON_B: "A", pygame.CONTROLLER_BUTTON_Y: "X",
    pygame.CONTROLLER_BUTTON_LEFTSHOULDER: "L", pygame.CONTROLLER_BUTTON_RIGHTSHOULDER: "R",
    pygame.CONTROLLER_BUTTON_START: "START", pygame.CONTROLLER_BUTTON_BACK: "SELECT",
    pygame.CONTROLLER_BUTTON_DPAD_LEFT: "LEFT", pygame.CONTROLLER_BUTTON_DPAD_RIGHT: "RIGHT",
    pygame.CONTROLLER_BUTTON_DPAD_UP: "UP", pygame.CONTROLLER_BUTTON_DPAD_DOWN: "DOWN",
}  # fmt: skip
PAD_AXES = (  # axis, button at its negative end, button at its positive end
    (pygame.CONTROLLER_AXIS_LEFTX, "LEFT", "RIGHT"),
    (pygame.CONTROLLER_AXIS_LEFTY, "UP", "DOWN"),
    (pygame.CONTROLLER_AXIS_TRIGGERRIGHT, "", "B"),
    (pygame.CONTROLLER_AXIS_TRIGGERLEFT, "", "Y"),
)
FAR = 14_000  # dead zone of a stick, of 32,767


class Pad:
    """Buttons held on the keyboard and on all gamepads, which may be plugged in and removed.

    Args:
        arrows_drive: whether the up and down arrows also drive and brake.
    """

    def __init__(self, arrows_drive: bool) -> None:
        self._arrows_drive = arrows_drive
        self._keys: set[int] = set()
        self._gamepads: dict[int, controller.Controller] = {}
        controller.init()

    def take(self, event: pygame.event.Event) -> None:
        if event.type == pygame.KEYDOWN:
            self._keys.add(event.key)
        elif event.type == pygame.KEYUP:
            self._keys.discard(event.key)
        elif event.type == pygame.WINDOWFOCUSLOST:
            self.release()
        elif event.type == pygame.CONTROLLERDEVICEADDED:
            gamepad = controller.Controller(event.device_index)
            self._gamepads[gamepad.as_joystick().get_instance_id()] = gamepad
        elif event.type == pygame.CONTROLLERDEVICEREMOVED:
            self._gamepads.pop(event.instance_id, None)

    def release(self) -> None:
        """Forget the held keys."""
        self._keys.clear()

    def buttons(self) -> int:
        """The held buttons of the joypad: bit i for `BUTTONS[i]`."""
        names = {KEYS[key] for key in self._keys if key in KEYS}
        if self._arrows_drive:
            names |= {name for key, name in ARROWS.items() if key in self._keys}
        for gamepad in self._gamepads.values():
            names |= gamepad_buttons(
                (button for button in PAD_BUTTONS if gamepad.get_button(button)),
                {axis: gamepad.get_axis(axis) for axis, _, _ in PAD_AXES},
            )
        for pair in ({"LEFT", "RIGHT"}, {"UP", "DOWN"}):  # a D-pad cannot be pressed on opposite sides
            if pair <= names:
                names -= pair
        return sum(BIT[name] for name in names)


def gamepad_buttons(pressed: Iterable[int], axes: dict[int, int]) -> set[str]:
    """Names of the joypad buttons for a gamepad's pressed buttons and axes, -32,768 to 32,767."""
    names = {PAD_BUTTONS[button] for button in pressed}
    for axis, low, high in PAD_AXES:
        if axes[axis] <= -FAR and low:
            names.add(low)
        elif axes[axis] >= FAR:
            names.add(high)
    return names
