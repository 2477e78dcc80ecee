"""Levers are read off what is started: no spelling smuggles one in, and none is claimed that reaches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from experimenttools import parsed

from infermaxx_tui.core.experiment.commandline import given_flags, option
from infermaxx_tui.core.experiment.levers import Settings, settings
from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.experiment.conduct import read_experiment

_HEAD = 'name = "x"\nquestion = "?"\n[server]\n'
_LAUNCH = 'launch = ["vllm", "serve", "/m", "--kv_cache_dtype=fp8", "-tp", "1", "--enforce-eager"]\n'
_DRAFT = '{"method": "ngram", "num_speculative_tokens": 3}'


def _arms(*arms: str, server: str = _LAUNCH) -> tuple[Settings, ...]:
    """A chain of arms, each the child of the one before it, with these lines."""
    text = _HEAD + server
    for place, lines in enumerate(arms):
        parent = f'parent = "arm{place - 1}"\n' if place else ""
        text += f'[[arms]]\nname = "arm{place}"\n{parent}{lines}\n'
    return settings(parsed(text))


@pytest.mark.parametrize(
    ("arms", "last", "moved"),
    [
        (("flags={kv-cache-dtype='auto'}", "flags={kv_cache_dtype='fp8'}", "flags={'--kv-cache-dtype'='int8'}"),
         "--kv-cache-dtype int8", "--kv-cache-dtype"),
        (("", "flags={kv_cache_dtype='auto'}"), "--kv-cache-dtype auto", "--kv-cache-dtype"),
        (("", "flags={tensor-parallel-size=2}"), "--tensor-parallel-size 2", "--tensor-parallel-size"),
        (("flags={'-tp'=2}", "flags={tensor_parallel_size=4}"), "--tensor-parallel-size 4", "--tensor-parallel-size"),
        (("", "flags={enforce_eager=false}"), "-tp 1", "--enforce-eager"),
        (("", "flags={no-enforce-eager=true}"), "--no-enforce-eager", "--enforce-eager"),
        (("flags={no-enforce-eager=true}", "flags={enforce-eager=true}"), "--enforce-eager", "--enforce-eager"),
        (("", f"flags={{speculative-config='{_DRAFT}'}}"), _DRAFT, "--speculative-config"),
        ((f"flags={{speculative-config='{_DRAFT}'}}", f"flags={{speculative-config='{_DRAFT.replace('3', '5')}'}}"),
         _DRAFT.replace("3", "5"), "--speculative-config"),
        (("", "flags={'speculative-config.method'='ngram', 'speculative_config.num_speculative_tokens'=3}"),
         "--speculative-config.num_speculative_tokens 3", "--speculative-config"),
        (("", "flags={'--model'='/n'}"), "--enforce-eager", "--model"),
    ],
)  # fmt: skip
def test_one_flag_is_one_lever_however_it_is_spelled_and_the_last_one_is_what_is_started(
    arms: tuple[str, ...], last: str, moved: str
) -> None:
    found = _arms(*arms)[-1]
    assert found.moved == (moved,)
    assert " ".join(found.launch).endswith(last)
    words = [word.partition("=")[0].replace("_", "-") for word in found.launch if "." not in word]
    assert all(words.count(word) == 1 for word in words if word.startswith("-")), found.launch


@pytest.mark.parametrize(
    "lines",
    [
        "flags={kv-cache-dtype='fp8'}",
        "flags={kv_cache_dtype='fp8'}",
        "flags={tensor-parallel-size=1}",
        "flags={tensor-parallel-size='1.0'}",
        "flags={enforce_eager=true}",
        "flags={model='/m'}",
        "flags={absent=false}",
    ],
)
def test_an_arm_that_says_the_same_in_other_words_is_its_parent(lines: str) -> None:
    with pytest.raises(ScenarioError, match=r"arms\[1\]: arm1 is the same as its parent arm0"):
        _arms("", lines)


def test_json_in_another_order_is_the_same_and_two_of_its_keys_are_two_levers() -> None:
    one = f"flags={{speculative-config='{_DRAFT}'}}"
    with pytest.raises(ScenarioError, match="is the same as its parent"):
        _arms(one, """flags={speculative-config='{"num_speculative_tokens":3,"method":"ngram"}'}""")
    other = """flags={speculative-config='{"method": "mtp", "num_speculative_tokens": 1}'}"""
    both = r"2 levers against arm0 \(--speculative-config.method, --speculative-config.num_speculative_tokens\)"
    with pytest.raises(ScenarioError, match=both):
        _arms(one, other)
    with pytest.raises(ScenarioError, match="moves 2 levers"):
        _arms(one, other + '\nconfounded = "  "')
    told = _arms(one, other + '\nconfounded = "another method needs another length"')[1]
    assert [told.lever(name) for name in told.moved] == ["mtp", "1"]


@pytest.mark.parametrize(
    ("server", "arms", "said"),
    [
        (_LAUNCH, ("", "sim=['leak']"), r"arms\[1\].sim: has no effect: server.launch starts"),
        (_LAUNCH, ("", "url='http://h:1'", "flags={x=1}"), r"arms\[2\].flags: has no effect: this arm is asked at"),
        (_LAUNCH, ("", "url='http://h:1'", "env={A='1'}"), r"arms\[2\].env: has no effect: this arm is asked at"),
        ("url='http://h:1'\n", ("", "env={A='1'}"), r"arms\[1\].env: has no effect: this arm is asked at"),
        ("url='http://h:1'\n", ("", "sim=['leak']"), r"arms\[1\].sim: has no effect: this arm is asked at"),
        ("sim=['clean']\n", ("", "env={A='1'}"), r"arms\[1\].env: has no effect: the embedded server"),
        ("sim=['clean']\n", ("", "sim=['clean']"), r"arms\[1\]: arm1 is the same"),
        ("url='http://h:1'\n", ("", "url='http://h:1/v1/'"), r"arms\[1\]: arm1 is the same"),
        ("url='http://h:1'\n", ("", "url='h:1/'"), r"arms\[1\]: arm1 is the same"),
        ("sim=['clean']\n", ("", "sim=['leak', 'small-kv']"), r"2 levers against arm0 \(sim leak, sim small-kv\)"),
        ("sim=['clean']\n", ("", "set=['server.url=\"http://h:1\"']"), r"arms\[1\].set: 'server.url=.*reaches nothing"),
        ("sim=['clean']\n", ("", "set=['sessions={count=8}']"), r"arms\[1\].set: .* sets a whole table"),
        ("sim=['clean']\n", ("set=['seed=1']", "set=['seed = 1']"), r"arms\[1\]: arm1 is the same"),
        ("launch=['sh', '-c', 'vllm serve /m']\n", ("", "flags={x=1}"), r"arms\[1\].flags: have no effect: .* shell"),
        (_LAUNCH, ("", "flags={a-b=1, a_b=2}"), r"arms\[1\].flags: 'a-b' and 'a_b' are one flag"),
        (_LAUNCH, ("", "flags={'a=1'=true}"), r"arms\[1\].flags: 'a=1' is no name of a flag"),
        (_LAUNCH, ("", "flags={''=1}"), r"arms\[1\].flags: '' is no name of a flag"),
    ],
)  # fmt: skip
def test_what_reaches_no_server_or_moves_more_than_it_says_is_refused(
    server: str, arms: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ScenarioError, match=said) as caught:
        _arms(*arms, server=server)
    assert "\n" not in str(caught.value)


def test_a_shell_that_passes_its_words_on_may_have_flags_and_a_server_elsewhere_is_one_lever() -> None:
    shell = """launch=['sh', '-c', 'exec vllm serve /m "$@"', 'sh']\n"""
    assert _arms("", "flags={x=1}", server=shell)[1].launch[-2:] == ("--x", "1")
    assert _arms("", "url='http://h:1'")[1].moved == ("url",)
    two = _arms("", "url='http://h:1'\nset=['seed=3']\nconfounded='both'")[1]
    assert two.moved == ("set seed", "url")


def test_an_arm_that_sets_a_key_to_what_its_scenario_has_is_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    text = _HEAD + "sim=['clean']\n[[arms]]\nname='a'\n[[arms]]\nname='b'\nparent='a'\nset=['sessions.count={}']\n"
    file.write_text(text.format(2), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"arms\[1\].set: b plays what its parent a plays: set sessions.count"):
        read_experiment(str(file))
    file.write_text(text.format(3), encoding="utf-8")
    assert read_experiment(str(file)).experiment.arms[1].name == "b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            _HEAD + "sim=['clean']\n[[arms]]\nname='a'\nsim=['lek']\n",
            r"a: sim: 'lek' is not a fault; the nearest is 'leak'",
        ),
        ("sessions=['/nowhere/*.jsonl']\n" + _HEAD + "sim=['clean']\n[[arms]]\nname='a'\n", "matches no file"),
    ],
)
def test_what_no_start_could_use_is_said_before_the_first_one(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=said):
        read_experiment(str(file))


def test_a_flag_that_is_not_given_is_not_said_to_be_off() -> None:
    one = _arms("flags={no-enable-prefix-caching=true}", "flags={no-enable-prefix-caching=false}")
    assert [(arm.moved, arm.lever("--enable-prefix-caching")) for arm in one] == [
        ((), "no"),
        (("--enable-prefix-caching",), "default"),
    ]


def test_a_flag_is_read_in_every_spelling() -> None:
    words = ("vllm", "serve", "/m", "-tp", "2", "--max_model_len=9", "--a", "-1", "--b", "-O3", "-sc.method", "mtp")
    assert given_flags(words) == {
        "--tensor-parallel-size": "2", "--max-model-len": "9", "--a": "-1", "--b": "on", "--optimization-level": "3",
        "--speculative-config": '{"method": "mtp"}',
    }  # fmt: skip
    assert option(words, "tensor-parallel-size") == "2"
    assert option(words, "max-model-len") == "9"
    assert option(words, "speculative-config") == '{"method": "mtp"}'
    assert [option(words, name) for name in ("b", "none")] == [None, None]
    assert option(("vllm", "serve", "--dtype", "half", "/m"), "dtype") == "half", "a word behind is no part of it"
