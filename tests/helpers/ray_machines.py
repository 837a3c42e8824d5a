"""A Ray cluster of several machines, all of which are this one: as `ray.cluster_utils` starts them."""

import contextlib
import json
import random
import secrets
import shutil
import socket
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import environment, kill_all, titled

HEAD_ID = f"{0:05}".rjust(56, "f")  # as Ray's fake machines expect it
TOKEN = secrets.token_hex(32)  # of all clusters of this process, in which Ray remembers the first that it has read
AUTOSCALED_CPUS = 3  # of a machine that the autoscaler brings


class Machines:
    """Raylets on this machine, the first of two CPUs and the others of one, that only it can reach.

    Ray's autoscaler brings one of `AUTOSCALED_CPUS` while it is asked for.

    Args:
        folder: for the autoscaler's settings.
    """

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self._options: dict[str, Any] = {"include_dashboard": False, "object_store_memory": 100_000_000}
        port = _free_port()
        settings = folder / "autoscaler.json"
        settings.write_text(json.dumps(_autoscaler(f"127.0.0.1:{port}")))
        head = {"num_cpus": 2, "gcs_server_port": port, "autoscaling_config": str(settings), **self._options}
        head["env_vars"] = {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address

    def _brought(self) -> list[psutil.Process]:
        (monitor,) = self._cluster.head_node.all_processes["monitor"]
        return psutil.Process(monitor.process.pid).children(recursive=True)

    def autoscaled(self) -> list[psutil.Process]:
        """The raylets of machines that the autoscaler has brought, which are its own processes here."""
        raylets = []
        for process in self._brought():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() == "raylet" and process.status() != psutil.STATUS_ZOMBIE:
                    raylets.append(process)
        return raylets

    def add(self, **environment: str) -> Any:
        """One more."""
        return self._cluster.add_node(num_cpus=1, env_vars=environment, **self._options)

    def remove(self, machine: Any) -> None:
        """Its power fails."""
        self._cluster.remove_node(machine, allow_graceful=False)

    def nodes(self) -> dict[int, psutil.Process]:
        """Ray's processes of kartrl's nodes, by their numbers."""
        return {process.pid: process for process in self.titled("ray::Node")}

    def agents(self) -> list[psutil.Process]:
        """Of all nodes."""
        return self.titled("kartrl agent-")

    def processes(self) -> list[psutil.Process]:
        """All processes of nodes and their hosts, but Ray's idle ones and fork servers."""
        return [process for title in ("ray::Node", "ray::Host", "kartrl ") for process in self.titled(title)]

    def titled(self, title: str) -> list[psutil.Process]:
        """All processes that its raylets have started, at any remove, with titles that begin like this."""
        found: list[psutil.Process] = []
        for machine in self._cluster.list_all_nodes():
            (raylet,) = machine.all_processes["raylet"]
            with contextlib.suppress(psutil.NoSuchProcess):
                found += titled(psutil.Process(raylet.process.pid).children(recursive=True), title)
        return found

    def close(self) -> None:
        """End all of it."""
        left = self._brought()
        self._cluster.shutdown()
        kill_all(left)


def _free_port() -> int:
    """Below those that the system hands out: nobody who asks for any, as Ray often does, gets it before it is used."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def _autoscaler(gcs_address: str) -> dict[str, Any]:
    """Settings of an autoscaler, whose machines are processes; with all keys that Ray asks for."""
    lists = ["initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray"]
    resources = {"CPU": AUTOSCALED_CPUS, "object_store_memory": 100_000_000}
    return {
        "cluster_name": "test",
        "max_workers": 1,
        "provider": {
            "type": "fake_multinode",
            "gcs_address": gcs_address,
            "use_node_id_as_ip": True,  # as all have one address
            "disable_node_updaters": True,
            "worker_liveness_check": False,  # a busy machine's processes may be slow
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 2}, "node_config": {}, "max_workers": 0},
            "large": {"resources": resources, "node_config": {}, "max_workers": 1},
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 0.05,
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
    } | {f"{name}_commands": list[str]() for name in lists}


@contextlib.contextmanager
def ray_machines() -> Iterator[Machines]:
    """A cluster whose only machine is its head."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # the loopback interface alone
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short, as paths of sockets must be
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setenv("RAY_FAKE_CLUSTER", "1")
        patch.setenv("AUTOSCALER_UPDATE_INTERVAL_S", "1")
        (folder / "ray").mkdir()
        try:
            machines = Machines(folder)
            try:
                yield machines
            finally:
                machines.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def other_version(folder: Path) -> Path:
    """A copy of kartrl's code in `folder` that says it is of another version."""
    import kartrl

    here = Path(kartrl.__file__).parent
    shutil.copytree(here, folder / "kartrl", ignore=shutil.ignore_patterns("__pycache__", "games", "weights"))
    init = folder / "kartrl" / "__init__.py"
    init.write_text(init.read_text(encoding="utf-8").replace(kartrl.__version__, "0.0.1"), encoding="utf-8")
    return folder
