"""What the table of an ablation says of runs."""

import pytest
from ablation import main, read_run, row


def write(folder, rewards, finished):
    """A run with two updates and two races in each window of 20,000 steps; the races end as `finished` says."""
    folder.mkdir()
    tags = {"losses/mean_reward": None, "losses/policy_kl": 0.01, "losses/explained_variance": 0.5}
    scalars, episodes = (
        ["seconds,agent_steps,tag,value"],
        ["seconds,agent_steps,time,level,episodic_return,episodic_length,finished"],
    )
    for number, (reward, end) in enumerate(zip(rewards, finished, strict=True)):
        for part in (2, 19_999):
            steps = 20_000 * number + part
            scalars += [f"1,{steps},{tag},{reward if value is None else value}" for tag, value in tags.items()]
            episodes.append(f"1,{steps},1,a,10,900,{int(end)}")
    (folder / "scalars.csv").write_text("\n".join(scalars) + "\n")
    (folder / "episodes.csv").write_text("\n".join(episodes) + "\n")


def test_row_shows_collapse_and_run_that_never_drove(tmp_path):
    write(tmp_path / "a__1", [0.0, 0.03, 0.04, 0.01, 0.04, *[0.04] * 15], [False] * 3 + [True] * 10 + [False] * 7)
    write(tmp_path / "a__2", [-0.01] * 20, [False] * 20)
    cells = row("a", [read_run(tmp_path / "a__1"), read_run(tmp_path / "a__2")])
    assert cells == [
        "a", "60, -", "-, -", "40, -", "1 of 19, never good", "1, never good", "0.25, never good", "40, -",
        "44%, 0%", "0.0100, 0.0100", "0.50, 0.50",
    ]  # fmt: skip


def test_the_table_and_the_plot_of_an_experiment(tmp_path, capsys, monkeypatch):
    for name in ("change__1", "default__1", "default__2"):
        write(tmp_path / name, [0.04] * 10, [True] * 10)
    folders = [str(path) for path in sorted(tmp_path.iterdir())]
    monkeypatch.setattr("sys.argv", ["ablation.py", *folders, "-o", str(tmp_path / "plot.png")])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| default", "| change"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["default", "default__1"])
def test_a_folder_that_is_no_such_run_is_a_clear_error(tmp_path, capsys, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.argv", ["ablation.py", str(tmp_path / name)])
    with pytest.raises(SystemExit):
        main()
    assert f"{name}: not " in capsys.readouterr().err
