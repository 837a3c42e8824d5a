"""Processes that show signs of life, or fail; they load little, and so start fast."""

import time

from kartrl.processes.pipes import Pulse


def live(signs):
    """Show signs of life."""
    pulse = Pulse(signs)
    while True:
        pulse.beat()
        time.sleep(0.01)


def fail(server):
    """Fail as an agent does whose environment has much to say."""
    from kartrl.acting.agent import telling  # not for those that only live

    with telling(server):
        raise ValueError("no more levels:\n  see the manual")
