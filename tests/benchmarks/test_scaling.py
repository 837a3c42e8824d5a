"""The benchmark of scaling reads its command line."""

import sys

import pytest
import scaling

from kartrl.errors import UserError


def test_configurations_are_read_as_named(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scaling.py", "-c", "cartpole", "nowhere.cfg"])
    with pytest.raises(UserError, match=r"nowhere\.cfg"):
        scaling.main()
