"""A run's connection to Ray: an existing cluster, or a private one that no one else can reach."""

import contextlib
import importlib.util
import logging
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kartrl.algorithms import ALGORITHMS
from kartrl.config import Config, System
from kartrl.errors import UserError
from kartrl.hardware.machine import cores
from kartrl.nodes.tokens import ANSWER_SECONDS, use_token
from kartrl.processes.socket_folder import RAY_FOLDER, RAYS, fits, make_socket_folder
from kartrl.sizing.compatibility import is_hogwild

ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # calls that are in progress at the end fail, and nobody reads their answers
}  # report nothing to Ray's makers, and print nothing
OWN = {  # for a private cluster; read when Ray is imported
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as on those, it then listens on the loopback interface only
    "RAY_AUTH_MODE": "token",
}
STORE_BYTES = 200_000_000  # minimum size of its object store
IN_STORE = 8  # batches that must fit into it: two calls each of a few nodes
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Machine(NamedTuple):
    """A living machine of the cluster."""

    id: str  # Ray's
    host: str
    cpus: int
    gpus: float
    here: bool  # whether the learner runs on it


def check(config: Config) -> None:
    """Refuse settings that nodes of agents do not support, before anything is started.

    Raises:
        UserError: the settings are incompatible, or Ray is not installed.
    """
    section = config.cluster
    if section.ray == "none":
        for key in section.changed_keys():
            raise UserError(f"[cluster] {key}: only with cluster.ray; add --ray auto")
        return
    several, name = f"[cluster] ray = {section.ray}:", config.algorithm.name
    if ALGORITHMS[name].synchronous or is_hogwild(config):
        what = "with a3c.hogwild" if is_hogwild(config) else f"with {name}, whose agents wait for each update"
        others = ", ".join(sorted(other for other, algorithm in ALGORITHMS.items() if not algorithm.synchronous))
        raise UserError(f"{several} not {what}; algorithm.name may be {others}")
    if config.run.reproducible:
        raise UserError(f"{several} not with run.reproducible; set it to false")
    if config.system.learners > 1:
        raise UserError(f"{several} not with several learners; set system.learners=1")
    if config.system.predictor_devices != System.model_fields["predictor_devices"].default:
        raise UserError(f"{several} nodes choose their own devices; leave system.predictor_devices at its default")
    for module, extra in (("ray", "cluster"), *((("lz4", "cluster"),) if section.compression == "lz4" else ())):
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{several} {module} is not installed; try: pip install 'kartrl[{extra}]'")


def find_cluster(name: str) -> str | None:
    """The address of the cluster to join; None: none, or a private one. Call it before Ray is imported.

    Args:
        name: `cluster.ray`.

    Raises:
        UserError: nothing answers there, or it wants another token than this machine's.
    """
    address = None if name == "none" else running() if name == "auto" else name
    if address is not None:
        if not _answers(address):
            raise UserError(f"[cluster] ray = {name}: nothing answers at {address}; is it HOST:PORT?")
        try:
            use_token(address)
        except UserError as error:
            raise UserError(f"[cluster] ray = {name}: {error}") from error
    return address


class RaySession:
    """A connection to Ray; one at a time in a process.

    Args:
        address: `cluster.ray`.
        batch_bytes: size of a batch of unrolls.

    Raises:
        UserError: there is no such cluster, see `find_cluster`, or it runs another version of Ray or Python.
    """

    def __init__(self, address: str, batch_bytes: int, say: Callable[[str], None]) -> None:
        os.environ.update(ALWAYS)
        self._folder: Path | None = None
        self._asked = False
        options: dict[str, Any] = {"address": find_cluster(address)}
        if options["address"] is None:
            # removed with its parent folder if this process is killed
            sockets = Path(os.environ["KARTRL_SOCKETS"])
            self._folder = (sockets if fits(sockets, RAYS) else make_socket_folder(RAYS)) / RAY_FOLDER
            os.environ.update(OWN, RAY_AUTH_TOKEN=secrets.token_hex(32))
            store = max(STORE_BYTES, IN_STORE * batch_bytes)
            options = {"address": "local", "num_cpus": cores(), "object_store_memory": store}
            options |= {"include_dashboard": False, "_temp_dir": str(self._folder)}
        say(f"{'Starting Ray' if self._folder is not None else 'Joining the Ray cluster'} ...")
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            with _own_handlers():
                import ray

                self.ray = ray
                ray.init(**options, log_to_driver=False, configure_logging=False)
        except Exception as error:  # its own errors have no class that is known before the import
            expected = isinstance(error, ConnectionError | RuntimeError | ValueError | OSError)
            if not (expected or type(error).__module__.startswith("ray.")):
                raise
            self.close()
            where = "started" if self._folder is not None else "joined"
            hint = "" if self._folder is not None else "; this machine must be one of its own: ray start --address=..."
            text = " ".join(str(error).split())[:300]
            raise UserError(f"[cluster] ray = {address}: Ray cannot be {where}: {text}{hint}") from error

    def machines(self) -> list[Machine]:
        """The living machines that have CPUs for nodes."""
        here = self.ray.get_runtime_context().get_node_id()
        found = []
        for node in self.ray.nodes():
            cpus = int(node["Resources"].get("CPU", 0)) if node["Alive"] else 0
            if cpus > 0:
                identity, gpus = node["NodeID"], float(node["Resources"].get("GPU", 0))
                found.append(Machine(identity, node["NodeManagerHostname"], cpus, gpus, identity == here))
        return sorted(found, key=lambda machine: (not machine.here, machine.id))

    def ask_for(self, nodes: int, cpus: int) -> None:
        """Ask Ray's autoscaler, if there is one, for machines for `nodes` nodes of `cpus` CPUs each, until `close`.

        Ray keeps one such request per cluster, the latest, even after its sender has died.
        """
        if self._folder is None:  # a private cluster cannot grow
            from ray.autoscaler.sdk import request_resources

            request_resources(bundles=[{"CPU": cpus}] * nodes)
            self._asked = nodes > 0

    def close(self) -> None:
        """Leave the cluster; a private one ends."""
        if self._asked:
            with contextlib.suppress(self.ray.exceptions.RayError):  # its head may have died
                self.ask_for(0, 0)
        with contextlib.suppress(AttributeError):  # Ray could not be imported
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def running() -> str | None:
    """The address of the cluster that this machine belongs to, from `RAY_ADDRESS` or as left by `ray start`.

    None if there is none, or no longer: a machine that went down without `ray stop` has left its address, too.
    """
    address = os.environ.get("RAY_ADDRESS", "auto")
    if address == "local":  # as Ray understands it: a cluster of its own
        return None
    if address not in ("", "auto"):
        return address
    try:
        address = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster").read_text("utf-8").strip()
    except OSError:
        return None
    return address if _answers(address) else None


def _answers(address: str) -> bool:
    """Whether anything listens there; Ray itself would keep trying for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Context manager: keep this process's signal handlers, which Ray would replace."""
    handlers = {number: signal.getsignal(number) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
