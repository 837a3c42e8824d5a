"""`kartrl/Snake-v0`: a snake eats, grows, and dies when it hits the wall or itself."""

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # rows and columns: up, right, down, left
BEGIN = 3  # initial length of the snake in cells
HEAD, FOOD, WALL = (255, 255, 255), (255, 60, 60), (110, 110, 130)
NECK, TAIL = 255, 90  # green values of the body, which fades towards the tail
CELL = 16  # pixels per cell when rendered


class SnakeEnv(gymnasium.Env[np.ndarray, Any]):
    """A square board with a wall around it; the agent observes one pixel per cell.

    Eating gives a reward of 1, and new food appears elsewhere; death gives -1. A snake cannot reverse: it continues in
    its direction instead. An episode is truncated if the snake eats nothing for as many steps as there are cells, or if
    it fills the board.

    Args:
        size: side of the board in cells.
        foods: pieces of food on the board at once.
        render_mode: "rgb_array" or None.

    Raises:
        ValueError: the board is too small for a snake and its food.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, size: int = 15, foods: int = 2, render_mode: str | None = None) -> None:
        if size < BEGIN + 1 or not 1 <= foods <= size:
            raise ValueError(f"size must be at least {BEGIN + 1} and foods 1 to size (got {size} and {foods})")
        self._size, self._foods, self.render_mode = size, foods, render_mode
        self.action_space = spaces.Discrete(len(MOVES))
        self.observation_space = spaces.Box(0, 255, (size + 2, size + 2, 3), np.uint8)
        self._empty = np.full(self.observation_space.shape or (), WALL, np.uint8)
        self._empty[1:-1, 1:-1] = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin with the snake in the middle, its head to the right."""
        super().reset(seed=seed)
        middle = self._size // 2
        self.body = deque((middle, middle - number) for number in range(BEGIN))  # from head to tail
        self.move, self.food, self._eaten, self._hungry = MOVES[1], set[tuple[int, int]](), 0, 0
        self._place_food()
        return self._look(), {"foods": 0}

    def get_action_meanings(self) -> list[str]:
        """Names of the actions."""
        return ["UP", "RIGHT", "DOWN", "LEFT"]

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by one cell: 0 up, 1 right, 2 down, 3 left."""
        row, column = MOVES[action]
        if (row, column) != (-self.move[0], -self.move[1]):
            self.move = row, column
        head = self.body[0][0] + self.move[0], self.body[0][1] + self.move[1]
        eats = head in self.food
        if not eats:
            self.body.pop()  # the tail moves first, so the head may enter its cell
        dies = not all(0 <= place < self._size for place in head) or head in self.body
        self._hungry += 1
        if not dies:
            self.body.appendleft(head)
        if eats:
            self.food.remove(head)
            self._eaten, self._hungry = self._eaten + 1, 0
            self._place_food()
        starved = self._hungry >= self._size**2 or not self.food
        reward = -1.0 if dies else float(eats)
        return self._look(), reward, dies, starved and not dies, {"foods": self._eaten}

    def _place_food(self) -> None:
        taken = {*self.body, *self.food}
        free = [(row, column) for row in range(self._size) for column in range(self._size)]
        free = [cell for cell in free if cell not in taken]
        while free and len(self.food) < self._foods:
            self.food.add(free.pop(int(self.np_random.integers(len(free)))))

    def _look(self) -> np.ndarray:
        """The observation, uint8 [size + 2, size + 2, 3]: white head, green body, darker towards the tail, red food."""
        picture = self._empty.copy()
        board = picture[1:-1, 1:-1]
        for cell, green in zip(self.body, np.linspace(NECK, TAIL, len(self.body)), strict=True):
            board[cell] = (0, green, 0)
        board[self.body[0]] = HEAD
        for cell in self.food:
            board[cell] = FOOD
        return picture

    def render(self) -> Any:
        """The observation at 16 pixels per cell, with lines between the cells; None without a render mode."""
        if self.render_mode is None:
            return None
        picture = self._look().repeat(CELL, 0).repeat(CELL, 1)
        picture[::CELL] //= 2
        picture[:, ::CELL] //= 2
        return picture
