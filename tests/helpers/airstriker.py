"""`airstriker:Airstriker-v0`: the game inside stable-retro, made as its documentation says."""

import gymnasium


def make(**settings):
    import stable_retro

    actions = stable_retro.Actions.DISCRETE
    return stable_retro.make("Airstriker-Genesis-v0", use_restricted_actions=actions, **settings)


gymnasium.register("Airstriker-v0", make)
