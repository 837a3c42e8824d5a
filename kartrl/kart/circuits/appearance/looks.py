"""The eight kinds of circuits: colours, textures and surfaces."""

import numpy as np

from kartrl.kart.circuits.appearance import art
from kartrl.kart.circuits.appearance.kinds import FAR, Kind, Layer, Pool
from kartrl.kart.circuits.appearance.surfaces import CODES


def _codes(*names: str) -> tuple[int, ...]:
    return tuple(CODES[name] for name in names)


def _asphalt() -> Kind:
    road = art.speckled("r", "ddddll", 16, 1)
    lawn = art.checks(art.tufted("g", "h", "t", 16, 3, 2), art.tufted("h", "i", "g", 16, 3, 3), 32)
    red, white = art.art("QQQQWWWW"), art.art("QQQQWWWW").T.copy()
    flowers = art.art("..W..... .W5W..0. ..W..060 ......0. .0...... 060..W.. .0..W5W. .....W..")
    return Kind(
        road="asphalt",
        colours={
            "g": (14, 26, 6), "h": (12, 24, 6), "i": (9, 20, 5), "t": (18, 28, 9), "r": (8, 8, 10), "d": (6, 6, 8),
            "l": (10, 10, 12),
            "Q": (27, 4, 4), "v": (19, 23, 9), "a": (10, 24, 8), "b": (5, 17, 6), "c": (3, 12, 5), "s": (1, 6, 3),
            "p": (31, 27, 14), "q": (28, 20, 6), "u": (20, 12, 3), "x": (9, 5, 2),
        },
        layers=(
            Layer(-3, road),
            Layer(0, art.art("W")),
            Layer(7, white, "steep-turn"),
            Layer(7, red, "turn"),
            Layer(9, art.art("v")),
            Layer(FAR, lawn),
        ),
        grounds=((5, "asphalt"), (FAR, "grass")),
        outside=art.art("bbbbbbbb bbcbbbbb bcccbbbb bbcbbbbb bbbbbbbb bbbbbbcb bbbbbccc bbbbbbcb"),
        block=art.block("p", "q", "u", "x"),
        rail="Wdx",
        sky=((10, 19, 31), (13, 22, 31), (17, 25, 31), (21, 28, 31), (26, 30, 31), (31, 31, 31),
             (13, 17, 24), (16, 20, 26), (6, 15, 9), (8, 18, 9), (4, 12, 8), (27, 29, 31)),
        mini={"asphalt": (26, 26, 27), "grass": (7, 17, 6), "wall": (25, 17, 5), "water": (5, 12, 27)},
        tree=art.ball(24, "a", "b", "c", "s"),
        trees=150,
        tree_on=_codes("grass"),
        flats=((flowers, 120, _codes("grass")),),
    )  # fmt: skip


def _dirt() -> Kind:
    road = art.ripples("r", "l", "d", 16, 7, 11)
    field = art.checks(art.ripples("f", "m", "n", 16, 9, 12), art.ripples("n", "f", "o", 16, 9, 13), 32)
    return Kind(
        road="dirt",
        colours={
            "r": (27, 20, 11), "d": (24, 17, 8), "l": (30, 24, 15), "e": (20, 12, 5), "s": (11, 6, 2), "t": (14, 8, 3),
            "u": (8, 4, 1),
            "f": (9, 13, 3), "m": (11, 16, 4), "n": (7, 11, 2), "o": (5, 9, 2),
            "a": (29, 24, 8), "b": (24, 18, 5), "c": (18, 12, 3), "q": (9, 6, 2),
            "A": (4, 11, 25), "B": (8, 17, 30), "C": (3, 8, 20), "S": (22, 17, 10),
        },
        layers=(
            Layer(-4, road),
            Layer(0, art.art("eerr rree reer errr")),
            Layer(2, art.art("q")),
            Layer(26, art.ripples("s", "t", "u", 16, 9, 14)),
            Layer(30, art.art("nf fn")),
            Layer(FAR, field),
        ),
        grounds=((4, "dirt"), (FAR, "soil")),
        outside=art.art("nnnnnnnn nnonnnnn nooonnnn nnnnnnnn nnnnnnnn nnnnnonn nnnnooon nnnnnnnn"),
        block=art.block("a", "b", "c", "q"),
        rail="abq",
        sky=((11, 20, 30), (15, 23, 30), (20, 25, 29), (26, 26, 25), (30, 27, 20), (31, 30, 27),
             (18, 17, 22), (22, 20, 21), (14, 17, 5), (12, 15, 4), (8, 11, 3), (25, 23, 22)),
        mini={"dirt": (29, 23, 13), "soil": (8, 11, 3), "wall": (22, 16, 4), "water": (5, 13, 28)},
        tree=art.ball(24, "a", "b", "c", "q"),
        trees=110,
        tree_on=_codes("soil"),
        flats=((art.art("...mm... ..mWWm.. .mW6Wm.. ..mWWm.. ...mm... ........ .......m ......m."),
                140, _codes("soil")),),
        pools={"water": Pool(art.ripples("A", "B", "C", 32, 14, 15), "S"),
               "soil": Pool(art.ripples("s", "t", "u", 16, 9, 14), "e")},
        clear=32,
    )  # fmt: skip


def _planks() -> Kind:
    across = art.planks("prq", "g", "k")
    mist = art.ripples("v", "w", "v", 64, 26, 21)
    ghost = art.art("..mmmm.. .mWWWWm. mWKWWKWm mWKWWKWm mWWWWWWm mWWKKWWm mWWWWWWm mm.mm.mm")
    return Kind(
        road="planks",
        colours={
            "p": (23, 17, 10), "r": (21, 15, 8), "q": (25, 19, 12), "g": (11, 7, 4), "k": (15, 10, 5),
            "b": (16, 10, 5), "c": (28, 23, 15),
            "x": (8, 5, 4), "y": (5, 3, 4), "v": (2, 1, 5), "w": (4, 3, 9), "m": (11, 13, 19), "n": (6, 6, 13),
            "a": (28, 23, 18), "d": (18, 13, 10), "e": (11, 8, 6), "h": (5, 3, 3),
        },
        layers=(
            Layer(-6, across, "steep"),
            Layer(-6, across.T.copy()),
            Layer(-4, art.art("c")),
            Layer(0, art.art("b")),
            Layer(4, art.art("x"), "south"),
            Layer(10, art.art("yv yv yv yv"), "south"),
            Layer(FAR, mist),
        ),
        grounds=((4, "planks"), (FAR, "void")),
        outside=art.art("v"),
        block=art.block("a", "d", "e", "h"),
        rail="adh",
        sky=((2, 2, 7), (4, 4, 10), (6, 6, 13), (9, 8, 16), (13, 11, 18), (18, 18, 24),
             (5, 5, 10), (6, 6, 12), (4, 3, 8), (3, 2, 7), (2, 1, 5), (11, 11, 17)),
        mini={"planks": (25, 19, 12), "void": (3, 2, 7), "wall": (17, 12, 9)},
        flats=((ghost, 60, _codes("void")),
               (art.art(".n.. nmn. .n.. ....").repeat(2, 0).repeat(2, 1), 40, _codes("void"))),
        clear=30,
        border=False,
    )  # fmt: skip


def _castle() -> Kind:
    lava = art.ripples("v", "y", "u", 32, 30, 31)
    return Kind(
        road="stone",
        colours={
            "r": (8, 8, 10), "l": (11, 11, 13), "d": (5, 5, 7), "e": (13, 12, 13), "f": (4, 2, 2), "z": (15, 3, 1),
            "v": (29, 13, 1), "y": (31, 24, 6), "u": (25, 8, 1),
            "a": (25, 24, 25), "b": (18, 17, 19), "c": (12, 11, 14), "h": (5, 4, 6), "t": (31, 28, 10),
            "i": (21, 16, 17),
        },
        layers=(
            Layer(-4, art.slabs("r", "l", "d", 32)),
            Layer(0, art.art("e")),
            Layer(5, art.art("f")),
            Layer(8, art.art("zf fz")),
            Layer(FAR, lava),
        ),
        grounds=((4, "stone"), (FAR, "lava")),
        outside=art.art("vvvvvvvv vyyvvvvv vvuuuvvv vvvvvvvv vvvvvyyv vvvvvvuu uvvvvvvv vvvvvvvv"),
        block=art.block("a", "b", "c", "h"),
        rail="abh",
        sky=((7, 1, 2), (11, 2, 2), (16, 4, 2), (22, 8, 2), (29, 14, 3), (13, 5, 4),
             (9, 3, 4), (7, 2, 3), (5, 1, 2), (4, 1, 2), (3, 1, 1), (28, 15, 4)),
        mini={"stone": (15, 15, 18), "lava": (26, 9, 1), "wall": (25, 24, 25)},
        tree=art.pillar(24, "a", "b", "c", "t"),
        trees=70,
        tree_on=_codes("lava"),
        flats=((art.art("........ ..zzzz.. .zffffz. zffffffz zfffzffz .zffffz. ..zzzz.. ........"),
                160, _codes("lava")),),
        pools={"lava": Pool(lava, "f")},
        clear=36,
        border=False,
    )  # fmt: skip


def _mud() -> Kind:
    road = art.speckled("r", "ddddddlllll", 16, 41)
    choco = art.ripples("g", "h", "i", 32, 30, 42)
    return Kind(
        road="track",
        colours={
            "r": (25, 18, 11), "d": (22, 15, 8), "l": (28, 22, 15), "e": (31, 28, 23), "f": (17, 10, 5),
            "g": (9, 4, 2), "h": (13, 7, 3), "i": (6, 3, 1), "m": (14, 8, 4), "n": (18, 11, 6), "o": (11, 6, 3),
            "a": (31, 26, 27), "b": (30, 18, 21), "c": (23, 11, 14), "q": (13, 6, 6), "s": (31, 30, 28),
            "t": (20, 24, 14),
        },
        layers=(
            Layer(-3, road),
            Layer(0, art.art("eeeeffff eeeeffff ffffeeee ffffeeee").repeat(2, 0)),
            Layer(4, art.art("f")),
            Layer(14, art.ripples("h", "n", "g", 16, 8, 43)),
            Layer(FAR, choco),
        ),
        grounds=((4, "track"), (FAR, "soil")),
        outside=art.art("gggggggg ghhhgggg gggggggg gggggggi gggggiii gggggggg hhgggggg gggggggg"),
        block=art.block("e", "r", "f", "i"),
        rail="erf",
        sky=((20, 12, 20), (24, 16, 21), (28, 20, 22), (30, 25, 24), (31, 29, 26), (31, 31, 31),
             (17, 10, 9), (20, 13, 11), (12, 7, 4), (10, 5, 3), (7, 3, 2), (31, 29, 28)),
        mini={"track": (29, 22, 14), "soil": (9, 4, 2), "wall": (30, 18, 21), "mud": (17, 10, 5),
              "water": (18, 26, 30)},
        tree=art.ball(24, "a", "b", "c", "q"),
        trees=110,
        tree_on=_codes("soil"),
        flats=((art.art("........ ..00.... ..0000.. ....0... ......tt .66...t. 666..... .6......"),
                150, _codes("soil")),),
        pools={"mud": Pool(art.ripples("m", "n", "o", 16, 8, 44), "i")},
        clear=22,
    )  # fmt: skip


def _beach() -> Kind:
    sea = art.ripples("A", "B", "C", 32, 18, 51)
    palm = art.star(24, "a", "b", "c", "t")
    return Kind(
        road="beach",
        colours={
            "r": (30, 27, 18), "d": (28, 24, 15), "l": (31, 29, 22), "e": (23, 18, 10), "s": (22, 17, 9),
            "t": (19, 14, 7),
            "u": (25, 20, 12),
            "w": (15, 25, 27), "x": (21, 29, 30), "z": (12, 22, 26), "A": (3, 12, 23), "B": (6, 17, 27),
            "C": (2, 9, 19), "f": (29, 31, 31),
            "a": (10, 24, 6), "b": (5, 17, 4), "c": (2, 10, 3), "p": (31, 24, 20), "q": (29, 14, 12),
        },
        layers=(
            Layer(-3, art.ripples("r", "l", "d", 16, 5, 52)),
            Layer(0, art.art("eu ue")),
            Layer(26, art.speckled("s", "tttttuuuu", 16, 53)),
            Layer(30, art.art("f")),
            Layer(62, art.ripples("w", "x", "z", 16, 5, 54)),
            Layer(66, art.art("zA")),
            Layer(FAR, sea),
        ),
        grounds=((4, "beach"), (28, "sand"), (64, "shallows"), (FAR, "water")),
        outside=art.art("AAAAAAAA ABBBAAAA AACCCAAA AAAAAAAA AAAAAAAA AAAAABBB CAAAAACC AAAAAAAA"),
        block=art.block("u", "s", "t", "c"),
        rail="ute",
        sky=((6, 18, 31), (10, 21, 31), (15, 25, 31), (20, 28, 31), (26, 31, 31), (31, 31, 31),
             (9, 17, 27), (12, 20, 28), (10, 22, 25), (6, 15, 25), (3, 11, 22), (26, 30, 31)),
        mini={"beach": (31, 28, 19), "water": (3, 10, 21), "sand": (21, 16, 9), "shallows": (13, 23, 26),
              "wall": (4, 15, 4)},
        tree=palm,
        trees=500,
        tree_on=_codes("sand", "shallows"),
        flats=((art.art("........ ...p.... ..pqp... .pqpqp.. ..ppp... ........ ......W. ........"),
                300, _codes("sand")),
               (art.art("........ ..xxx... .x...x.. ........ ....xx.. ...x..x. ........ ........"),
                120, _codes("shallows"))),
        pools={"water": Pool(sea, "z"), "shallows": Pool(art.ripples("w", "x", "z", 16, 5, 54), "f"),
               "sand": Pool(art.speckled("s", "tttttuuuu", 16, 53), "f")},
        clear=4,
        border=False,
        wave=14,
    )  # fmt: skip


def _ice() -> Kind:
    snow = art.checks(art.tufted("s", "t", "W", 16, 2, 61), art.tufted("u", "t", "s", 16, 2, 62), 32)
    return Kind(
        road="ice",
        colours={
            "r": (10, 18, 27), "l": (16, 24, 31), "d": (8, 15, 24), "e": (5, 10, 20), "s": (29, 30, 31),
            "t": (23, 26, 30),
            "u": (27, 29, 31),
            "A": (2, 6, 15), "B": (5, 10, 20), "a": (8, 20, 15), "b": (4, 13, 11), "c": (2, 8, 8), "x": (19, 24, 30),
            "y": (13, 19, 28),
        },
        layers=(
            Layer(-4, art.stripes("r", "d", 16)),
            Layer(0, art.art("l")),
            Layer(3, art.art("e")),
            Layer(9, art.art("t")),
            Layer(FAR, snow),
        ),
        grounds=((4, "ice"), (FAR, "snow")),
        outside=art.art("ssssssss sstsssss stttssss sstsssss ssssssss ssssssts sssssttt ssssssts"),
        block=art.block("W", "x", "y", "e"),
        rail="Wxe",
        sky=((13, 20, 28), (17, 23, 29), (21, 26, 30), (25, 28, 31), (29, 30, 31), (31, 31, 31),
             (17, 22, 29), (21, 25, 30), (28, 29, 31), (25, 27, 30), (22, 25, 29), (31, 31, 31)),
        mini={"ice": (9, 17, 27), "snow": (28, 29, 31), "wall": (4, 14, 11), "water": (2, 6, 15)},
        tree=art.star(24, "a", "b", "c", "W"),
        trees=130,
        tree_on=_codes("snow"),
        flats=((art.art("........ ..ttt... .tyyyt.. .tyyt... ..tt.... ........ .....t.. ........"),
                130, _codes("snow")),),
        pools={"water": Pool(art.ripples("A", "B", "A", 16, 5, 63), "l"),
               "snow": Pool(art.speckled("s", "ttttu", 16, 64), "t"),
               "ice": Pool(art.stripes("r", "d", 16), "l")},
        clear=16,
    )  # fmt: skip


def _rainbow() -> Kind:
    bands = "ABCDEFGH"
    squares = np.block([[np.full((16, 16), ord(bands[(i + j) % 8]), np.uint8) for i in range(8)] for j in range(8)])
    squares[::16] = squares[:, ::16] = ord("h")
    space = art.speckled("v", "wwwwwwwwxxxxW", 64, 71)
    spark = art.art("...w.... ...x.... ..xWx... wxWWWxw. ..xWx... ...x.... ...w.... ........")
    return Kind(
        road="rainbow",
        colours={
            "A": (31, 11, 11), "B": (31, 19, 8), "C": (31, 28, 8), "D": (17, 29, 9), "E": (9, 28, 22),
            "F": (11, 23, 31), "G": (17, 16, 31),
            "H": (28, 15, 29), "h": (31, 30, 29), "v": (1, 1, 3), "w": (8, 8, 17), "x": (19, 20, 28),
            "g": (14, 18, 31), "i": (6, 7, 17),
            "a": (28, 28, 31), "b": (18, 20, 29), "c": (9, 11, 22),
        },
        layers=(
            Layer(-4, squares),
            Layer(0, art.art("W")),
            Layer(2, art.art("g")),
            Layer(5, art.art("i")),
            Layer(FAR, space),
        ),
        grounds=((4, "rainbow"), (FAR, "void")),
        outside=art.art("v"),
        block=art.block("a", "b", "c", "v"),
        rail="abc",
        sky=((1, 1, 4), (2, 1, 6), (3, 2, 9), (5, 3, 13), (9, 5, 18), (24, 22, 31),
             (6, 3, 14), (8, 4, 17), (3, 2, 10), (2, 1, 7), (1, 1, 4), (26, 20, 31)),
        mini={"rainbow": (31, 27, 12), "void": (1, 1, 5), "wall": (20, 21, 29)},
        flats=((spark, 90, _codes("void")),),
        clear=24,
        border=False,
        narrowest=44,
    )  # fmt: skip


KINDS = {
    "asphalt": _asphalt(),
    "dirt": _dirt(),
    "planks": _planks(),
    "castle": _castle(),
    "mud": _mud(),
    "beach": _beach(),
    "ice": _ice(),
    "rainbow": _rainbow(),
}
