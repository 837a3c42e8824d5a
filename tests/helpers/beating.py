"""A process that shows signs of life; it loads little, and so starts fast."""

import time

from kartrl.processes.pipes import Pulse


def live(signs):
    """Its body."""
    pulse = Pulse(signs)
    while True:
        pulse.beat()
        time.sleep(0.01)
