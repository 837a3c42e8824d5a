"""The host of a machine's nodes, a Ray actor: it starts the processes that act, from a fork server that has all loaded.

So the death of a node, which is another Ray actor, costs no second load of PyTorch and kartrl.
"""

import contextlib
import os
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from kartrl.errors import UserError
from kartrl.nodes.identity import identity
from kartrl.processes.child import fork_server_key
from kartrl.processes.spawn import spawn, start_method


class Host:
    """See above. It has no torch itself, and outlives its nodes; if it dies, so do they, and Ray restarts it."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def start(
        self,
        expected: str,
        text: str,
        name: str,
        cpus: int,
        seed: int,
        compress: bool,
        known: bytes | None,
    ) -> str:
        """Start a process that acts; return the path of the socket at which it awaits its node.

        Args:
            expected: the learner's `identity`; plain text, like the rest, as another version could not read more.
            text: the configuration.
            name: the node's.
            cpus: cores for its agents.
            seed: seed of its first agent's first environment, and of its predictors' sampling.
            compress: whether to compress observations.
            known: of a previous `Greeting` from this place, so that nothing is inspected and measured again.

        Raises:
            UserError: this machine's kartrl differs from the learner's, or its limits prevent it from starting.
            RunFailed: the fork server ended while starting it, and so did its successor.
        """
        if identity() != expected:
            raise UserError(f"kartrl there is {identity()}, and the learner's {expected}: install the same on both")
        # Otherwise each process started here would import Ray's main module, and Ray with it.
        vars(sys.modules["__main__"]).pop("__file__", None)
        context = start_method("kartrl.nodes.acting_process")
        self._folder = Path(os.environ["KARTRL_SOCKETS"])  # this user's alone
        path = self._folder / f"node-{secrets.token_hex(4)}"
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(str(path))
            listener.listen(1)
            spawn(context, name.replace(" ", "-"), _act, listener, fork_server_key(), text, cpus, seed, compress, known)
        return str(path)

    def end(self) -> None:
        """Remove its sockets' folder: a Ray that ends kills its fork server, which would do so, too."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _act(*arguments: Any) -> None:
    """Body of such a process, to which its module is not new."""
    from kartrl.nodes import acting_process

    acting_process.run(*arguments)
