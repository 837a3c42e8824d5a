"""Pictures of environments, whatever their `render` returns."""

import filmed
import numpy as np
import pytest

from kartrl.config import read
from kartrl.envs import make_env
from kartrl.envs.wrappers.pictures import picture_of
from kartrl.errors import UserError

HALVES = np.where(filmed.GREY > 100, 255, 0).astype(np.uint8)
EXPECTED = {
    **dict.fromkeys(filmed.OF_GREY, np.dstack([filmed.GREY] * 3)),
    **dict.fromkeys(filmed.OF_COLOUR, filmed.COLOUR),
    **dict.fromkeys(filmed.OF_HALVES, np.dstack([HALVES] * 3)),
}


def opened(look: str, **more):
    env = make_env(read(overrides=["environment.id=filmed:Filmed-v0"]), render=True, **more)
    env.reset()
    env.unwrapped.look = look
    return env


@pytest.mark.parametrize("look", EXPECTED)
def test_a_picture_of_any_kind_is_shown_as_it_is(look):
    picture = picture_of(opened(look))
    assert (picture.dtype, picture.shape) == (np.uint8, (11, 16, 3))
    np.testing.assert_allclose(picture.astype(int), EXPECTED[look], atol=6 if look == "a little more" else 1)


@pytest.mark.parametrize("look", filmed.NONE)
def test_unusable_picture_is_one_line(look):
    with pytest.raises(UserError, match=r"^the environment cannot be filmed: render\(\) returned [^\n]*$"):
        picture_of(opened(look))


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8])
def test_a_dark_picture_after_bright_ones_stays_dark(kind):
    env = opened("bytes")
    for name, values in (("bright", filmed.COLOUR), ("dark", filmed.COLOUR // 255)):
        filmed.LOOKS[name] = values.astype(kind)
        env.unwrapped.look = name
        np.testing.assert_array_equal(picture_of(env), values)
