"""An experiment file: its arms, their levers, and all that is refused before anything is started."""

from __future__ import annotations

import pytest
from experimenttools import LADDER, parsed

from infermaxx_tui.core.experiment.commandline import command
from infermaxx_tui.core.experiment.file import parse_experiment
from infermaxx_tui.core.experiment.levers import settings
from infermaxx_tui.core.experiment.order import steps
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.shipped import experiment_files, find_scenario


def test_an_arm_is_its_parent_with_one_lever_moved() -> None:
    auto, fp8 = settings(parsed())
    assert auto.moved == ()
    assert auto.parent is None
    assert fp8.moved == ("--kv-cache-dtype",)
    assert fp8.launch == (
        "vllm", "serve", "/models/small", "--port", "8000",
        "--max-model-len", "8192", "--enforce-eager", "--kv-cache-dtype", "fp8_e4m3",
    )  # fmt: skip
    assert auto.launch[-2:] == ("--kv-cache-dtype", "auto")


def test_a_variable_of_the_environment_stands_over_the_files() -> None:
    assert "/models/mine" in settings(parsed(MODEL="/models/mine"))[0].launch
    assert "/models/set" in settings(parsed(LADDER, "vars.MODEL=/models/set"))[0].launch
    told = parsed(LADDER, "vars.MODEL=/models/set", MODEL="/models/mine")
    assert "/models/set" in settings(told)[0].launch, "what the command line says stands over both"
    with pytest.raises(ScenarioError, match=r"server\.launch\[2\]: \$\{MODEL\} has no value: set the variable MODEL"):
        parsed(LADDER, 'vars.MODEL=""')


@pytest.mark.parametrize(
    ("launch", "flags", "wanted"),
    [
        (("s",), {"a": 1}, ("s", "--a", "1")),
        (("s", "--a", "2", "--b"), {"a": 1}, ("s", "--b", "--a", "1")),
        (("s", "--a=2"), {"a": 1}, ("s", "--a", "1")),
        (("s", "--a", "--b", "x"), {"a": False}, ("s", "--b", "x")),
        (("s", "--a", "-1", "x"), {"a": True}, ("s", "x", "--a")),
        (("s",), {"max_num_seqs": 8}, ("s", "--max-num-seqs", "8")),
        (("vllm", "serve", "old", "--x"), {"model": "new"}, ("vllm", "serve", "new", "--x")),
        (("vllm", "serve", "--x"), {"model": "new", "y": 1}, ("vllm", "serve", "new", "--x", "--y", "1")),
    ],
)
def test_a_flag_is_taken_out_before_it_is_put_in(
    launch: tuple[str, ...], flags: dict[str, str | int | float | bool], wanted: tuple[str, ...]
) -> None:
    assert command(launch, flags) == wanted


def test_an_arm_may_have_its_own_time_to_come_up_and_that_is_no_lever() -> None:
    text = LADDER + '[[arms]]\nname = "slow"\nparent = "fp8"\nstart_s = 9\nflags = { "kv-cache-dtype" = "fp8" }\n'
    auto, fp8, slow = settings(parsed(text))
    assert (auto.start_s, fp8.start_s, slow.start_s) == (3600.0, 3600.0, 9.0)
    assert slow.moved == ("--kv-cache-dtype",)
    remote = settings(parsed(text + '[[arms]]\nname = "there"\nparent = "slow"\nurl = "http://127.0.0.1:1"\n'))[3]
    assert (remote.start_s, remote.moved) == (None, ("url",))


_TWO_LEVERS = (
    LADDER + '[[arms]]\nname = "both"\nparent = "auto"\nflags = { "kv-cache-dtype" = "fp8", "dtype" = "half" }\n'
)


def test_two_levers_are_refused_unless_the_file_says_why() -> None:
    with pytest.raises(
        ScenarioError, match=r"arms\[2\]: both moves 2 levers against auto \(--dtype, --kv-cache-dtype\)"
    ):
        parsed(_TWO_LEVERS)
    both = settings(parsed(_TWO_LEVERS + 'confounded = "the matrix wants A + B"\n'))[2]
    assert both.moved == ("--dtype", "--kv-cache-dtype")
    assert both.confounded == "the matrix wants A + B"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[[arms]]\nname = "x"\nparent = "gone"\n', r"arms\[2\].parent: 'gone' is no arm; arms are auto, fp8, x"),
        ('[[arms]]\nname = "x"\nparent = "auto"\n', r"arms\[2\]: x is the same as its parent auto"),
        ('[[arms]]\nname = "x"\nparent = "x"\nset = ["seed=1"]\n', r"arms\[2\].parent: leads back to the arm itself"),
        ('[[arms]]\nname = "fp8"\n', r"arms\[2\].name: 'fp8' is there twice"),
        ('[[arms]]\nname = "a b"\n', r"arms\[2\].name: use letters"),
        (
            '[[arms]]\nname = "x"\nflagz = 1\n',
            r"arms\[2\].flagz: unknown key; the nearest known key is arms\[2\].flags",
        ),
        ('[[arms]]\nname = "x"\nset = ["seed"]\n', r"arms\[2\].set: 'seed': write KEY=VALUE"),
        ('[[arms]]\nname = "x"\nenv = {"A=B" = "1"}\n', r"arms\[2\].env: 'A=B' is no variable"),
        ('[[arms]]\nname = "x"\nenv = {A = "1\\u0000"}\n', r"arms\[2\].env: 'A' is no variable"),
        ('[[arms]]\nname = "x"\nstart_s = -1.0\n', r"arms\[2\].start_s: must be more than 0"),
        ('[[arms]]\nname = "x"\nstart_s = nan\n', r"arms\[2\].start_s: must be more than 0"),
        (
            '[[predictions]]\nclaim="c"\nmeasure="m"\narm="fp8"\nagainst="nobody"\nband=[1, 2]\nrefuted_if="> 3"\n',
            r"predictions\[0\].against: 'nobody' is no arm",
        ),
        (
            '[[predictions]]\nclaim="c"\nmeasure="m"\narm="fp8"\nagainst="auto"\nband=[1, 4]\nrefuted_if="> 3"\n',
            r"predictions\[0\].refuted_if: '> 3' runs through the band",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(more: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said) as caught:
        parsed(LADDER + more)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "x"\nquestion = "?"\n', "arms: is empty"),
        (
            'name = "x"\nquestion = " "\n[server]\nurl = "http://127.0.0.1:1"\n[[arms]]\nname="a"\n',
            "question: is empty",
        ),
        ('name = "x"\nquestion = "?"\n[[arms]]\nname="a"\n', r"arms\[0\]: has no server"),
        ('name = "x"\nquestion = "?"\nboots = 0\n[[arms]]\nname="a"\nsim=["clean"]\n', "boots: must lie between"),
        ('name = "x"\nquestion = "?"\n[server]\nsim=["clean"]\nurl="u"\n[[arms]]\nname="a"\n', "server: names more"),
        ('question = "?"\n', "name: is missing"),
        ("name = ", "not TOML"),
        (f"name = {'[' * 3000}", "not TOML"),
        (
            'name = "x"\nquestion = "?"\n[server]\nsim=["clean"]\nidle_s=0.0\n[[arms]]\nname="a"\n',
            "server.idle_s: must",
        ),
        ('name = "x"\nquestion = "?"\narms = 3\n', "arms: expected `array`, got `int`"),
        (
            'name = "x"\nquestion = "?"\n[server]\nsim=["clean"]\n[[arms]]\nname="a"\nflags={x=1}\n',
            r"arms\[0\].flags: need",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parsed(text)


def test_arms_are_started_in_turn_or_one_after_another() -> None:
    experiment = parsed()
    order = steps(experiment)
    assert [(step.arm, step.boot) for step in order] == [("auto", 0), ("fp8", 0), ("auto", 1), ("fp8", 1)]
    assert [(step.arm, step.boot) for step in steps(parsed(LADDER, "order=sequence"))] == [
        ("auto", 0),
        ("auto", 1),
        ("fp8", 0),
        ("fp8", 1),
    ]


def test_every_shipped_experiment_is_one_and_plays_scenarios_that_are_there() -> None:
    files = experiment_files()
    assert len(files) >= 11
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# "), file.name
        experiment = parse_experiment(text, file.name, {"MODEL": "/m", "MODEL_WITH_DRAFT_HEAD": "/d"})
        assert experiment.name == file.stem
        scenario = find_scenario(experiment.scenario)
        for one in settings(experiment):
            parse_scenario(scenario.read_text(encoding="utf-8"), scenario.name, one.set)


def _shipped(name: str) -> dict[str, tuple[str, ...]]:
    """The command of each arm of a shipped experiment."""
    file = next(one for one in experiment_files() if one.stem == name)
    text = file.read_text(encoding="utf-8")
    known = parse_experiment(text, file.name, {"MODEL": "gptq", "MODEL_WITH_DRAFT_HEAD": "autoround"})
    return {one.arm: one.launch for one in settings(known)}


def _words(command: tuple[str, ...]) -> set[str]:
    """The command as `--flag value` pairs, so that their order does not matter, without what changes no server."""
    given = set(" ".join(command).replace(" --", "\n--").split("\n"))
    assert "--enable-prompt-tokens-details" in given, "else its usage does not say what is cold"
    return given - {"--port 8000", "--enable-prompt-tokens-details"}


def test_the_profiles_are_the_commands_of_note_a() -> None:
    found = {arm: _words(words) for arm, words in _shipped("profiles").items()}
    shared = "--gpu-memory-utilization 0.96"
    assert found["A"] == {
        "vllm serve autoround", "--max-model-len 32768", "--max-num-seqs 1", shared, "--kv-cache-dtype fp8_e4m3",
        '--speculative-config {"method": "qwen3_next_mtp", "num_speculative_tokens": 3}',
    }  # fmt: skip
    assert found["B"] == {
        "vllm serve gptq", "--max-model-len 131072", "--max-num-seqs 1", shared, "--kv-cache-dtype turboquant_3bit_nc",
    }  # fmt: skip
    assert found["C"] == {
        "vllm serve gptq", "--max-model-len 40960", "--max-num-seqs 8", shared, "--kv-cache-dtype turboquant_3bit_nc",
    }  # fmt: skip


def test_the_three_flags_are_those_of_note_b_each_alone_and_together() -> None:
    found = {arm: _words(words) for arm, words in _shipped("three-flags").items()}
    none = found["none"]
    assert none == {"vllm serve gptq", "--no-enable-prefix-caching", "--max-num-seqs 256"}
    assert found["prefix-caching"] == none - {"--no-enable-prefix-caching"}
    assert found["slots-16"] == none - {"--max-num-seqs 256"} | {"--max-num-seqs 16"}
    assert found["batched-8192"] == none | {"--max-num-batched-tokens 8192"}
    assert found["all"] == {"vllm serve gptq", "--max-num-seqs 16", "--max-num-batched-tokens 8192"}


def test_the_ladder_has_each_dtype_of_the_issue_and_proves_its_rungs() -> None:
    found = _shipped("kv-ladder")
    assert list(found) == [
        "auto", "fp8_e4m3", "fp8_e5m2",
        "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc",
    ]  # fmt: skip
    for arm, words in found.items():
        assert words[-2:] == ("--kv-cache-dtype", arm)
        assert " ".join(words).count("--max-model-len auto") == 1
    file = next(one for one in experiment_files() if one.stem == "kv-ladder")
    assert '{kind=\\"fit\\"' in file.read_text(encoding="utf-8")
