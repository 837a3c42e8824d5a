"""Means over episodes."""

from kartrl.config import Config, read
from kartrl.envs.episode import Episode
from kartrl.envs.worlds import GymnasiumWorld
from kartrl.kart.race_world import Race
from kartrl.kart.world import KartWorld
from kartrl.metrics.episode_metrics import evaluation_scalars, training_scalars

PLAIN = GymnasiumWorld(Config())
KART = KartWorld(read([], ["levels.*=none"]))


def test_no_episodes_give_no_values():
    assert training_scalars(PLAIN, []) == {}
    assert evaluation_scalars(PLAIN, []) == {}


def test_metrics_without_circuits_have_no_laps():
    episodes = [Episode(10, 10.0, True), Episode(20, 20.0, True)]
    assert training_scalars(PLAIN, episodes) == {"charts/episodic_return": 15.0, "charts/episodic_length": 15.0}
    assert evaluation_scalars(PLAIN, episodes) == {
        "evaluation/train_return": 15.0,
        "evaluation/train_episodes": 2.0,
    }


def test_evaluations_keep_train_and_test_apart():
    episodes = [
        Episode(10, 1.0, True, "A.Act1", "train", Race(5.0, (20.0, 18.0))),
        Episode(10, 3.0, False, "A.Act2", "train", Race(1.0, ())),
        Episode(10, 7.0, False, "A.Act3", "test", Race(0.5, ())),
    ]
    values = evaluation_scalars(KART, episodes)
    assert values["evaluation/train_return"] == 2.0
    assert values["evaluation/train_finished"] == 0.5
    assert values["evaluation/train_progress"] == 3.0
    assert values["evaluation/train_best_lap"] == 18.0
    assert values["evaluation/test_return"] == 7.0
    assert "evaluation/test_best_lap" not in values, "no lap was completed"
    assert values["evaluation_train/A.Act1/lap_time"] == 19.0
    assert values["evaluation_test/A.Act3/progress"] == 0.5
    assert not any("Act3" in tag for tag in values if tag.startswith("evaluation_train"))


def test_races_are_won_by_the_first_to_finish():
    world = KartWorld(read([], ["kart.opponents=3", "levels.*=none"]))
    episodes = [
        Episode(10, 1.0, finished, "A.Act1", details=Race(5.0, (), rank=rank))
        for finished, rank in ((True, 1), (True, 3), (False, 1), (True, 1))
    ]
    values = evaluation_scalars(world, episodes)
    assert values["evaluation/train_won"] == 0.5
    assert values["evaluation_train/A.Act1/rank"] == 1.5
    assert "evaluation/train_won" not in evaluation_scalars(KART, episodes), "alone nobody wins"
    assert world.summarize(episodes)[0] == "3 of 4, first in 50%"
    assert world.tell_episode(Episode(10, 1.0, True, details=Race(5.0, (20.0,), rank=2))).endswith("place 2 of 4")


def test_many_circuits_get_tags_for_their_groups():
    episodes = [
        Episode(10, float(number), number % 2 == 0, f"random.{kind}.{number:04}", details=Race(1.0, ()))
        for number in range(10)
        for kind in ("ice", "mud")
    ]
    world = KartWorld(read([], ["levels.*=train"]))
    tags = {tag.rpartition("/")[0] for tag in training_scalars(world, episodes)}
    assert tags == {"charts", "train_circuits/random.ice", "train_circuits/random.mud"}
    values = evaluation_scalars(world, episodes)
    assert values["evaluation_train/random.ice/episodic_return"] == values["evaluation/train_return"] == 4.5
