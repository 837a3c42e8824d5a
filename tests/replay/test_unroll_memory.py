"""What a replay holds is what was put in, bit for bit, each frame once; what it draws is drawn evenly."""

import sys
from collections import deque
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kartrl.envs.observation_spec import ObservationPart, ObservationSpec, plain
from kartrl.replay import MemoryShape, UnrollMemory
from kartrl.replay.mixture import Mixture, Part
from kartrl.replay.uniform import UniformReplay
from kartrl.trajectory import WITHOUT_TIME, Trajectory

T, K, STATE = 5, 6, 3
SIDE = 6


class Game:
    """An environment that shows random frames as stacks, as Gymnasium's wrapper and ale-py's vector do."""

    def __init__(self, seed, stack, channels, padding, ends):
        self.random = np.random.default_rng(seed)
        self.stack, self.channels, self.padding, self.ends = stack, channels, padding, ends
        self.observation, self.first = self.reset(), True

    def frame(self):
        return self.random.integers(0, 256, (SIDE, SIDE, self.channels), dtype=np.uint8)

    def reset(self):
        frame = self.frame()
        before = {"zero": np.zeros_like(frame), "reset": frame}[self.padding]
        return np.concatenate([before] * (self.stack - 1) + [frame], 2)

    def unroll(self, length=T):
        """Unrolls that begin with the observation with which the one before ended, as agents write them."""
        observations, firsts, terminated, valid = [self.observation], [self.first], [], []
        for _ in range(length):
            if terminated and terminated[-1]:
                observation, first = self.reset(), True
            else:
                observation = np.concatenate([self.observation[..., self.channels :], self.frame()], 2)
                first = False
            terminated.append(bool(self.random.random() < self.ends))
            valid.append(not first)
            self.observation, self.first = observation, first
            observations.append(observation)
            firsts.append(first)
        return np.stack(observations), np.array(firsts), np.array(terminated), np.array(valid)


def batch_of(games, random, number):
    unrolls = [game.unroll() for game in games]
    observation, first, terminated, valid = (np.stack(parts, 1) for parts in zip(*unrolls, strict=True))
    size = len(games)
    return Trajectory(
        observation=observation,
        first=first,
        initial_state=random.normal(size=(size, STATE)).astype(np.float32),
        decision=random.normal(size=(T, size, K)).astype(np.float32),
        reward=np.full((T, size), number, np.float32) + np.arange(size, dtype=np.float32) / 100,
        terminated=terminated,
        valid=valid,
        version=np.full((T, size), number),
        online=np.ones(size, bool),
        importance=np.ones(size, np.float32),
        serial=np.full(size, -1),
    )


class Held:
    """A memory of which one replay holds the newest unrolls."""

    def __init__(self, capacity, shape, dtype="uint8", stack=4, spare=4, **more):
        unrolls = capacity // T
        self.memory = UnrollMemory(MemoryShape(unrolls + spare, T, plain(*shape), stack, K, STATE, **more))
        self.replay = UniformReplay(self.memory, unrolls, torch.Generator().manual_seed(3))
        self.mixture = Mixture(self.memory, [Part("uniform", self.replay, Fraction(1))])

    def serials(self):
        return self.replay.serials[self.replay.slots()]


def held_of(capacity, stack=4, channels=1, **more):
    return Held(capacity, (SIDE, SIDE, channels * stack), stack=stack, **more)


def assert_held(held_by, inserted):
    """Each unroll that is held is one that was inserted, in every field; returns which ones."""
    serials = held_by.serials()
    read = held_by.memory.read(serials)
    assert not read.online.any()
    np.testing.assert_array_equal(read.serial, serials)
    assert len(held_by.memory) == len(serials)
    held = []
    for column in range(len(serials)):
        number = float(read.reward[0, column])
        batch, b = inserted[round(int(number)), round((number % 1) * 100)]
        for name, array in batch._asdict().items():
            if name not in ("online", "serial"):
                part = array[b] if name in WITHOUT_TIME else array[:, b]
                mine = getattr(read, name)[column] if name in WITHOUT_TIME else getattr(read, name)[:, column]
                assert mine.dtype == part.dtype, name
                np.testing.assert_array_equal(mine, part, name)
        held.append((round(int(number)), round((number % 1) * 100)))
    return held


def fill(held, games, batches, drop=None):
    random = np.random.default_rng(0)
    inserted = {}
    for number in range(batches):
        batch = batch_of(games, random, number)
        if drop is not None and drop(number):
            continue
        held.mixture.insert(batch)
        inserted |= {(number, b): (batch, b) for b in range(len(games))}
    return inserted


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("vectors", [0, 2])
def test_packed_observations_are_as_inserted(vectors, stack, compression):
    """Of images of two sizes, stacked within an episode, and of vectors, also after saving."""
    random = np.random.default_rng(5)
    images = [ObservationPart("a", (5, 3, 3 * stack)), ObservationPart("b", (4, 4, stack))]
    spec = ObservationSpec.packed([*[ObservationPart(str(size), (size + 1,)) for size in range(vectors)], *images])
    frames = random.integers(0, 256, (40, spec.image_bytes // stack), np.uint8)
    rows, kept = np.zeros((40, spec.nbytes), np.uint8), deque(maxlen=stack)
    for step, frame in enumerate(frames):
        kept.extend([frame] * (stack if step % 9 == 0 else 1))  # episodes of 9 steps
        wide, small = (np.concatenate([part.reshape(*shape) for part in parts], 2) for shape, parts in (
            ((5, 3, 3), [each[:45] for each in kept]), ((4, 4, 1), [each[45:] for each in kept]))
        )  # fmt: skip
        rows[step, : spec.image_bytes] = np.concatenate([wide.ravel(), small.ravel()])
        for begin in spec.begins[2:]:
            rows[step, begin : begin + 4] = np.float32(random.normal()).reshape(1).view(np.uint8)
    template = batch_of([Game(0, 1, 1, "zero", 0.0)], random, 0)
    batches = [
        template._replace(
            observation=rows[number * T : (number + 1) * T + 1, None], reward=template.reward * 0 + number
        )
        for number in range(4)
    ]
    shape = MemoryShape(8, T, spec, stack, K, STATE, compression=compression)
    memories = UnrollMemory(shape), UnrollMemory(shape)
    serials = np.concatenate([memories[0].insert(batch, lambda: None) for batch in batches])
    for memory in memories:
        memory.hold(serials.tolist())
    memories[1].restore(memories[0].export(serials), lambda: None)
    for memory in memories:
        read = memory.read(serials)
        assert read.observation.dtype == np.uint8
        for column, batch in enumerate(batches):
            np.testing.assert_array_equal(read.observation[:, column], batch.observation[:, 0])
    assert memories[0].size <= shape.size()
    if stack > 1 and compression == "none":
        stored = memories[0].size - shape.fixed_bytes - len(batches) * shape.field_bytes // shape.unrolls
        assert stored < rows[: 4 * T].nbytes / 2, "each frame once"


@settings(max_examples=25, deadline=None)
@given(
    stack=st.sampled_from([1, 2, 4]),
    channels=st.sampled_from([1, 3]),
    padding=st.sampled_from(["zero", "reset"]),
    ends=st.sampled_from([0.0, 0.1, 0.5]),
    environments=st.integers(1, 4),
    batches=st.integers(1, 12),
    dropped=st.integers(2, 20),
    compression=st.sampled_from(["none", "lz4"]),
)
def test_unrolls_are_read_as_inserted_bit_for_bit(
    stack, channels, padding, ends, environments, batches, dropped, compression
):
    memory = held_of(60, stack, channels, compression=compression)
    games = [Game(seed, stack, channels, padding, ends) for seed in range(environments)]
    inserted = fill(memory, games, batches, drop=lambda number: number % dropped == dropped - 1)
    held = assert_held(memory, inserted)
    assert len(set(held)) == len(held)
    assert len(held) <= 60 // T
    newest = sorted(inserted, reverse=True)[: len(held)]
    assert sorted(held, reverse=True) == newest, "the oldest go first"


@pytest.mark.parametrize("padding", ["zero", "reset"])
def test_each_frame_is_stored_once_across_unrolls_and_ends(padding):
    memory, games = held_of(10_000), [Game(seed, 4, 1, padding, 0.02) for seed in range(3)]
    inserted = fill(memory, games, 100)
    ends = sum(int(batch.terminated[:, b].sum()) for batch, b in inserted.values())
    assert ends > 20
    written = memory.memory.shape.frames - memory.memory.frames.free
    beginnings = 3 * (2 if padding == "zero" else 1) + ends * (padding == "zero")
    assert 100 * 3 * T <= written <= 100 * 3 * T + beginnings
    assert len(memory.memory.ends) == 3, "only the newest end of each environment can go on"


def test_full_memory_holds_its_capacity_in_the_stated_bytes():
    memory, games = held_of(400), [Game(seed, 4, 1, "zero", 0.01) for seed in range(2)]
    inserted = fill(memory, games, 150)
    held = assert_held(memory, inserted)
    assert 400 - 2 * 2 * T <= len(held) * T <= 400
    arrays = [memory.memory.frames.frames, *memory.memory._fields.values()]
    shape = memory.memory.shape
    assert sum(array.nbytes for array in arrays) + shape.fixed_bytes == shape.size()
    assert 0.8 < memory.memory.size / memory.memory.shape.size() <= 1


def test_short_episodes_reuse_places_and_free_everything():
    held, games = held_of(1200), [Game(seed, 4, 1, "zero", 0.25) for seed in range(4)]
    inserted = fill(held, games, 80)
    assert 800 < len(assert_held(held, inserted)) * T < 1200
    while len(held.replay):
        held.replay.drop_oldest()
    assert held.memory.frames.free == held.memory.shape.frames
    assert len(held.memory) == 0
    assert not held.memory.uses.any()
    assert sorted(held.memory.frames.free_places) == list(range(held.memory.shape.frames)), "each place once"


def test_an_unroll_stays_until_no_replay_holds_it():
    held, games = held_of(100), [Game(seed, 4, 1, "zero", 0.1) for seed in range(2)]
    short = UniformReplay(held.memory, 4, torch.Generator())
    parts = [Part("uniform", held.replay, Fraction(1, 2)), Part("short", short, Fraction(1, 2))]
    held.mixture = Mixture(held.memory, parts)
    inserted = fill(held, games, 30)
    assert len(short) == 4
    assert len(assert_held(held, inserted)) > 4
    assert held.mixture.inserted == 60 * T
    np.testing.assert_array_equal(short.serials[short.slots()], held.serials()[-4:])
    for _ in range(len(held.replay) - 2):
        held.replay.drop_oldest()
    assert len(held.memory) == 4


def test_million_small_frames_have_little_overhead():
    shape = MemoryShape(1_000_000 // 20, 20, plain(84, 84, 4), 4, 9, 0)
    frames = shape.frames * 84 * 84
    assert frames < 1.02 * 1_000_000 * 84 * 84
    assert shape.size() < 7.2e9


def test_unrolls_without_a_valid_step_are_left_out():
    memory, games = held_of(60), [Game(seed, 4, 1, "zero", 0.1) for seed in range(2)]
    batch = batch_of(games, np.random.default_rng(0), 0)
    batch.valid[:, 0] = False
    assert memory.mixture.insert(batch).serial.tolist() == [-1, 0]
    assert assert_held(memory, {(0, 1): (batch, 1)}) == [(0, 1)]


def test_vectors_are_kept_too():
    memory = Held(50, (4,), "float32", stack=1)
    random = np.random.default_rng(0)
    inserted = {}
    for number in range(3):
        batch = batch_of([Game(0, 1, 1, "zero", 0.1)] * 2, random, number)
        batch = batch._replace(observation=random.normal(size=(T + 1, 2, 4)).astype(np.float32))
        memory.mixture.insert(batch)
        inserted |= {(number, b): (batch, b) for b in range(2)}
    assert len(assert_held(memory, inserted)) == 6


def test_compressed_frames_stay_below_the_limit_by_dropping_old():
    fixed = held_of(4000, compression="lz4").memory.size  # places
    bound = 30_000 + fixed
    held, games = held_of(4000, compression="lz4", limit=bound), [Game(seed, 4, 1, "zero", 0.05) for seed in range(2)]
    for game in games:
        game.frame = lambda game=game: np.full((SIDE, SIDE, 1), game.random.integers(256), np.uint8)
    inserted = fill(held, games, 120)
    assert 0.7 * 30_000 < held.memory.size - fixed <= 30_000
    serials = held.serials()
    assert len(serials) < 240
    assert serials.tolist() == list(range(240 - len(serials), 240))
    assert_held(held, inserted)
    assert held.memory.frames.size == sum(map(sys.getsizeof, filter(None, held.memory.frames.compressed)))
    while len(held.replay):
        held.replay.drop_oldest()
    assert held.memory.size == fixed


def test_extra_arrays_count_whole_against_compressed_limit():
    features, fixed = 10_000, held_of(4000, compression="lz4").memory.size
    bound = 60_000 + fixed
    held, games = held_of(4000, compression="lz4", limit=bound, features=features), [Game(0, 4, 1, "zero", 0.05)]
    games[0].frame = lambda: np.full((SIDE, SIDE, 1), games[0].random.integers(256), np.uint8)
    assert held.memory.size == 4 * features + fixed, "all slots are used in turn, however few unrolls fit"
    fill(held, games, 120)
    assert held.memory.frames.size < 60_000 - 4 * features
    assert 0.7 * 60_000 < held.memory.size - fixed <= 60_000


def test_frames_without_detail_take_less_compressed():
    sizes = {}
    for compression in ("none", "lz4"):
        held = Held(400, (84, 84, 4), compression=compression)
        game = Game(0, 4, 1, "zero", 0.05)
        game.frame = lambda game=game: np.full((84, 84, 1), game.random.integers(256), np.uint8)
        game.observation = game.reset()
        fill(held, [game], 20)
        sizes[compression] = held.memory.frames.size
    assert sizes["lz4"] < sizes["none"] / 20


def test_unrolls_without_successors_are_kept_while_room():
    held, random = held_of(100), np.random.default_rng(0)
    batch = batch_of([Game(seed, 4, 1, "zero", 0.1) for seed in range(9)], random, 0)
    inserted = {}
    for number in range(8):
        shape = batch.observation.shape
        batch = batch._replace(
            observation=random.integers(0, 256, shape, dtype=np.uint8),
            valid=np.ones((T, 9), bool),
            reward=number + np.arange(9, dtype=np.float32) / 100 + np.zeros((T, 1), np.float32),
        )
        serials = held.mixture.insert(batch).serial
        assert -1 in serials, "not even an empty memory has so many frames"
        assert (serials >= 0).any()
        inserted |= {(number, b): (batch, b) for b in range(9)}
        assert_held(held, inserted)
