"""Benchmark of saving a replay: what it fills, and that a held lock shows as a wait."""

import time

import numpy as np
import replay_save


def test_the_replay_holds_the_frames_that_were_played():
    mixture = replay_save.filled("uniform", 960, replay_save.Player())
    assert mixture.held == 960
    observation = mixture.sample(4).observation
    np.testing.assert_array_equal(observation[1:, ..., :-1], observation[:-1, ..., 1:])
    assert len(np.unique(observation[0, 0, ..., -1])) > 200


def test_a_held_lock_shows_as_a_wait(monkeypatch):
    monkeypatch.setattr(replay_save, "RATE", 1e5)
    player = replay_save.Player()
    mixture = replay_save.filled("prioritised", 960, player)
    thread = replay_save.TrainerLike(mixture, player)
    with mixture.lock:
        thread.start()
        time.sleep(0.3)
    while len(thread.turns) < 3:
        time.sleep(0.01)
    turns = thread.end()
    assert max(turn.waited for turn in turns) == turns[0].waited > 0.2
    assert turns[1].waited < 0.1
    figures = replay_save.row("held", 1.0, 0, turns).split("|")
    assert float(figures[5].split(",")[0]) == round(1e3 * turns[0].waited)
