"""Collapses of the training reward."""

import random

from kartrl.metrics.reward_watch import RewardWatch


def watched(rewards, noise=0.001, seed=0):
    """A watch that was given a read of 1,000 steps each second, ten of each of these mean rewards; and what it said."""
    chance, watch = random.Random(seed), RewardWatch()
    said = [
        watch.add(float(second), 1000, rewards[second // 10] + chance.gauss(0, noise))
        for second in range(10 * len(rewards))
    ]
    return watch, [line for line in said if line]


def test_policy_that_keeps_improving_has_no_collapse():
    watch, said = watched([-0.01, 0.0, 0.02, *[0.04] * 30])
    assert (watch.collapses, said) == (0, [])
    assert watch.phrase() == "no collapse"


def test_each_collapse_is_counted_timed_and_printed():
    watch, said = watched([-0.01, 0.0, 0.02, *[0.04] * 10, 0.0, 0.0, -0.01, *[0.04] * 5, 0.01, *[0.04] * 4])
    assert watch.collapses == 2
    assert 35 <= watch.collapsed_seconds <= 45
    assert 25 <= watch.longest_seconds <= 35
    assert [line.split(":")[0] for line in said] == ["Collapse", "Recovered", "Collapse", "Recovered"]
    assert watch.phrase().startswith("2 collapses")


def test_windows_are_extended_until_they_hold_enough_episodes():
    watch, said = RewardWatch("return", least=20), []
    for second in range(0, 1000, 2):  # ten seconds hold five episodes
        level = 10.0 if second < 100 else 400.0 if second < 600 else 50.0
        said.append(watch.add(float(second), 1, level + second % 5))
    assert [line for line in said if line] == ["Collapse: the mean training return fell from 402 to 52"]
    assert 350 < watch.collapsed_seconds <= 400
    assert watch.phrase().startswith("1 collapse of the training return (")


def test_noise_without_learning_is_no_collapse():
    for seed in range(20):
        watch, said = watched([0.0] * 200, noise=0.05, seed=seed)
        assert (watch.collapses, said, watch.phrase()) == (0, [], "")


def test_half_is_relative_to_the_start_for_negative_rewards():
    watch, _ = watched([-0.5, -0.4, -0.2, *[-0.1] * 10])
    assert watch.collapses == 0
    watch, _ = watched([-0.5, -0.4, -0.2, *[-0.1] * 10, -0.4])
    assert watch.collapses == 0, "a window that is not over does not count"
    watch, _ = watched([-0.5, -0.4, -0.2, *[-0.1] * 10, -0.4, -0.4])
    assert watch.collapses == 1
