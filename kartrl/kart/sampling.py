"""Which of its circuits an environment draws for the next race: `kart.circuit_sampling`."""

import numpy as np

from kartrl.kart.levels import circuit_name, group_of

LEAST = 0.1  # what solved circuits get of the steps, beside the 1.1 of those on which every race fails
OF_GROUPS, OF_CIRCUITS = 0.05, 0.3  # weight of the newest race in the share of races that fail


class CircuitSampling:
    """Balances the steps on groups of circuits, such as random.ice, and in each group those on its circuits.

    Without the groups a hard circuit would wait until each of the others was driven once, in each group of
    environments: with 300 circuits, a million agent steps. By failures, steps are in proportion to 0.1 + F, with F the
    share of recent races that failed, by fair queuing: a step counts 1 / (0.1 + F). As in prioritized level replay
    (arXiv:2010.03934), what is not solved yet is trained on more.

    Args:
        names: of circuits.
        kind: as `kart.circuit_sampling`.

    Attributes:
        groups: what the steps so far count, by group.
        circuits: the same by circuit.
    """

    def __init__(self, names: tuple[str, ...], kind: str) -> None:
        self._kind = kind
        self._group = {name: group_of(circuit_name(name)) for name in names}
        self.groups, self.circuits = dict.fromkeys(self._group.values(), 0.0), dict.fromkeys(names, 0.0)
        self._group_fails, self._circuit_fails = dict.fromkeys(self.groups, 1.0), dict.fromkeys(names, 1.0)

    def draw(self, random: np.random.Generator) -> str:
        """The circuit of the next race: if steps count, one with the fewest, in the group with the fewest."""
        names = [*self._group]
        if self._kind != "episodes":
            counted = {name: (self.groups[group], self.circuits[name]) for name, group in self._group.items()}
            fewest = min(counted.values())
            names = [name for name in names if counted[name] == fewest]
        return names[int(random.integers(len(names)))]

    def step(self, circuit: str) -> None:
        """There was a step on the circuit."""
        if (group := self._group.get(circuit)) is not None:  # else a reset has named another one
            weighed = self._kind == "failures"
            self.groups[group] += 1 / (LEAST + self._group_fails[group]) if weighed else 1
            self.circuits[circuit] += 1 / (LEAST + self._circuit_fails[circuit]) if weighed else 1

    def end(self, circuit: str, finished: bool) -> None:
        """A race on the circuit has ended."""
        if (group := self._group.get(circuit)) is not None:
            failed = 0.0 if finished else 1.0
            self._group_fails[group] += OF_GROUPS * (failed - self._group_fails[group])
            self._circuit_fails[circuit] += OF_CIRCUITS * (failed - self._circuit_fails[circuit])
