"""What the rows say together: the sick arm is not celebrated, the blind one not compared, the honest one is quoted."""

from __future__ import annotations

import msgspec
import pytest
from experimenttools import LADDER, arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.forecast import Forecast
from infermaxx_tui.core.experiment.lines import answer_lines, claim_text
from infermaxx_tui.core.experiment.rows import AnyRow, arm_rows, decode_rows, encode_row
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.model_facts import ModelFacts
from infermaxx_tui.core.reached import RegimeReached

_CLAIM = """
[[predictions]]
claim = "fp8 doubles the pool"
measure = "pool.tokens"
arm = "fp8"
against = "auto"
band = [1.9, 2.1]
refuted_if = "< 1.5"
"""


def _pool(tokens: float) -> Measure:
    return Measure(name="pool.tokens", unit="tokens", values=(tokens,), better="more")


def _rows(*rows: AnyRow, text: str = LADDER) -> str:
    return "\n".join(answer_lines(answer((first_row(parsed(text), text), *rows))))


def test_two_honest_arms_are_quoted_with_what_moved_and_what_did_not() -> None:
    experiment = parsed(LADDER + _CLAIM)
    rows = [
        arm_row(experiment, arm, boot, _pool(pool), speed(*speeds))
        for boot in range(2)
        for arm, pool, speeds in (("auto", 623200, (50.0, 50.1)), ("fp8", 1243488, (50.2, 50.1)))
    ]
    said = _rows(*rows, text=LADDER + _CLAIM)
    assert "pool.tokens: 1,243,488 tokens (1,243,488 to 1,243,488, n 2); moved +99.5 %" in said
    assert "decode.tokens_per_s at 0 tokens: 50.15 tokens/s" in said
    assert "no movement (" in said
    assert "HIT: fp8 doubles the pool (pool.tokens, fp8 / auto = 1.995" in said
    single = _rows(*(row for row in rows if row.boot == 0), text=LADDER + _CLAIM)
    assert "fp8 / auto = 1.995 (one value a side, so no spread); said" in single


def test_two_probes_of_one_start_are_one_start_and_are_said_to_be_two() -> None:
    """Both took four at once; their values hang together as those of one start do."""
    experiment = parsed()
    replace = msgspec.structs.replace
    rows = [
        arm_row(experiment, arm, 0, *(replace(speed(at, at + 0.1), probe=probe) for probe in range(2)))
        for arm, at in (("auto", 50.0), ("fp8", 55.0))
    ]
    found = answer((first_row(experiment), *rows))
    pair = found.arms[1].compared[0]
    assert (pair.movement.boots, pair.movement.n) == ((1, 1), (4, 4))
    assert (pair.measure.probe, pair.measure.note) == (None, "taken by 2 probes, at different times of the run")
    assert "one start a side" in _rows(*rows)
    blind = arm_row(experiment, "auto", 0, replace(speed(50.0), probe=0), replace(speed(), probe=1, reason="cut"))
    alone = answer((first_row(experiment), blind)).arms[0].measures[0]
    assert (alone.probe, alone.note, alone.reason) == (0, None, "cut")


def test_the_speed_of_an_arm_whose_gate_failed_is_withheld_and_not_compared() -> None:
    experiment = parsed()
    good = arm_row(experiment, "auto", 0, speed(50.0, 51.0))
    bad = arm_row(
        experiment,
        "fp8",
        0,
        speed(102.66, 103.0),
        _pool(1000),
        verdict="FAIL",
        checks={"degeneration": "fail"},
        speed_withheld="0 of 24 tasks right",
    )
    found = answer((first_row(experiment), good, bad))
    assert found.arms[1].worthless
    assert found.arms[1].withheld == "0 of 24 tasks right"
    by_name = {pair.measure.name: pair.movement for pair in found.arms[1].compared}
    assert by_name["decode.tokens_per_s"].outcome == "missing"
    assert by_name["decode.tokens_per_s"].ratio is None
    said = "\n".join(answer_lines(found))
    assert "102.66" not in said
    assert "102.7" not in said
    assert "0 of 24 tasks right" in said
    assert "FAIL (degeneration)" in said


def test_a_start_that_failed_is_a_row_with_its_reason_and_the_other_arm_goes_on() -> None:
    experiment = parsed()
    failed = arm_row(
        experiment,
        "fp8",
        0,
        outcome="boot_failed",
        verdict=None,
        run=None,
        reason="FlashAttention version not detected",
    )
    found = answer((first_row(experiment), arm_row(experiment, "auto", 0, speed(50.0)), failed))
    assert found.arms[1].failed == ("start 1: boot failed: FlashAttention version not detected",)
    assert not found.finished
    assert "not finished: 2 of 4 starts have a row" in "\n".join(answer_lines(found))


def test_regimes_that_differ_beside_the_lever_are_named() -> None:
    experiment = parsed()

    def row(arm: str, **regime: object) -> AnyRow:
        return arm_row(experiment, arm, 0, speed(1.0, 1.1), regime=msgspec.structs.replace(RegimeReached(), **regime))

    one_lever = answer((first_row(experiment), row("auto", kv_cache_dtype="auto"), row("fp8", kv_cache_dtype="fp8")))
    assert one_lever.arms[1].unlike == ()
    two = answer(
        (
            first_row(experiment),
            row("auto", kv_cache_dtype="auto", engine="vllm 0.26.0"),
            row("fp8", kv_cache_dtype="fp8", engine="vllm 0.32.0"),
        )
    )
    assert two.arms[1].unlike == ("engine", "kv_cache_dtype")
    assert any("CONFOUNDED" in line for line in answer_lines(two))


def test_answers_that_flip_stand_beside_how_many_flip_by_themselves() -> None:
    experiment = parsed()
    base = {"before/-1/a": "right: 4", "before/-1/b": "right: 5", "before/-1/c": "capped", "before/-1/d": "wrong: 1"}
    rows = (
        arm_row(experiment, "auto", 0, answers=base),
        arm_row(experiment, "auto", 1, answers=base | {"before/-1/d": "wrong: 2"}),
        arm_row(experiment, "fp8", 0, answers=base | {"before/-1/b": "wrong: 7", "before/-1/d": "right: 0"}),
    )
    flips = answer((first_row(experiment), *rows)).arms[1].flips
    assert flips is not None
    assert (flips.pairs, flips.flipped, flips.to_wrong, flips.to_right) == (3, 2, 1, 1)
    assert (flips.noise_pairs, flips.noise_flipped) == (3, 1)


@pytest.mark.parametrize(
    ("pools", "result"),
    [((1000, 2000), "HIT"), ((1000, 1000), "REFUTED"), ((1000, 1700), "MISS"), ((1000, None), "UNTESTED")],
)
def test_a_claim_is_scored_by_the_ratio(pools: tuple[float, float | None], result: str) -> None:
    text = LADDER + _CLAIM
    experiment = parsed(text)
    rows = [
        arm_row(experiment, arm, 0, *(() if pool is None else (_pool(pool),)))
        for arm, pool in zip(("auto", "fp8"), pools, strict=True)
    ]
    assert answer((first_row(experiment, text), *rows)).claims[0].result == result


@pytest.mark.parametrize(("degeneration", "shown"), [("pass", True), ("fail", False)])
def test_a_row_of_a_program_that_still_showed_the_speed_of_babble_shows_none(degeneration: str, shown: bool) -> None:
    experiment = parsed()
    rows = (
        arm_row(experiment, "auto", 0, speed(100.0, 101.0)),
        arm_row(experiment, "fp8", 0, speed(150.0, 151.0), checks={"degeneration": degeneration}),
    )
    arm = answer((first_row(experiment), *rows)).arms[1]
    (figure,) = arm.measures
    assert bool(figure.values) is shown
    assert (arm.withheld is None) is shown
    assert (arm.compared[0].movement.outcome == "missing") is not shown


_SPEED_CLAIM = """
[[predictions]]
claim = "decode stays as it is"
measure = "decode.tokens_per_s"
depth_tokens = 0
arm = "fp8"
against = "auto"
band = [0.95, 1.05]
refuted_if = "< 0.85"
"""


@pytest.mark.parametrize(
    ("starts", "result"),
    [
        ([(100.0, 101.0), (99.0, 100.0)], "HIT"),
        ([(70.0, 71.0), (69.0, 70.0)], "REFUTED"),
        ([(90.5, 91.0), (90.4, 91.1)], "MISS"),
        ([(60.0, 61.0), (140.0, 141.0)], "UNTESTED"),
        ([(50.0, 51.0), (95.0, 96.0)], "UNTESTED"),
    ],
    ids=["as it was", "surely less", "surely between", "a middle that holds, of anything", "a middle that is beyond"],
)
def test_a_claim_is_decided_only_where_the_interval_lies_on_one_side_of_its_line(
    starts: list[tuple[float, float]], result: str
) -> None:
    text = LADDER + _SPEED_CLAIM
    experiment = parsed(text)
    rows = [arm_row(experiment, "auto", boot, speed(100.0, 101.0)) for boot in range(2)]
    rows += [arm_row(experiment, "fp8", boot, speed(*values)) for boot, values in enumerate(starts)]
    scored = answer((first_row(experiment, text), *rows)).claims[0]
    assert scored.result == result
    if result == "UNTESTED":
        assert "reaches across the line < 0.85" in (scored.why or "")
        assert "to" in claim_text(scored)


@pytest.mark.parametrize(
    ("band", "starts", "result", "why"),
    [
        ("[1.02, 1.5]", [(110.0, 111.0), (110.1, 111.1)], "HIT", ""),
        (
            "[1.02, 1.5]",
            [(100.0, 101.0), (107.0, 108.0)],
            "UNTESTED",
            "holds no change at all, and a change was claimed",
        ),
        ("[0.95, 1.05]", [(99.0, 100.0), (102.0, 103.0)], "HIT", ""),
        ("[1.05, 1.5]", [(101.0, 102.0), (106.0, 107.0)], "UNTESTED", "reaches into the band"),
        ("[1.05, 1.5]", [(102.5, 102.6), (104.4, 104.6)], "UNTESTED", "reaches into the band"),
        ("[1.3, 1.5]", [(110.0, 111.0), (110.1, 111.1)], "MISS", ""),
        ("[1.3, 1.5]", [(100.0, 101.0), (100.0, 101.0)], "NO MOVEMENT", "lies within"),
    ],
)
def test_no_claim_is_hit_or_missed_by_a_figure_that_nobody_can_say_moved(
    band: str, starts: list[tuple[float, float]], result: str, why: str
) -> None:
    text = LADDER + _SPEED_CLAIM.replace("[0.95, 1.05]", band).replace("< 0.85", "< 0.5")
    experiment = parsed(text)
    rows = [arm_row(experiment, "auto", boot, speed(100.0, 101.0)) for boot in range(2)]
    rows += [arm_row(experiment, "fp8", boot, speed(*values)) for boot, values in enumerate(starts)]
    scored = answer((first_row(experiment, text), *rows)).claims[0]
    assert (scored.result, why in (scored.why or "")) == (result, True), scored


@pytest.mark.parametrize(
    ("starts", "url", "result"),
    [((2, 2), False, "HIT"), ((1, 1), False, "UNTESTED"), ((2, 1), False, "UNTESTED"), ((1, 1), True, "HIT")],
)
def test_a_claim_about_a_speed_that_crosses_starts_needs_two_of_each(
    starts: tuple[int, int], url: bool, result: str
) -> None:
    """A server at a URL is not started between its arms, so its repetitions are all there is."""
    text = LADDER + _SPEED_CLAIM
    experiment = parsed(text)
    rows = [
        arm_row(experiment, arm, boot, speed(100.0, 100.2, 100.1))
        for arm, count in zip(("auto", "fp8"), starts, strict=True)
        for boot in range(count)
    ]
    if url:
        there = [msgspec.structs.replace(row.settings, launch=(), url="http://h:1") for row in rows]
        rows = [msgspec.structs.replace(row, settings=one) for row, one in zip(rows, there, strict=True)]
    scored = answer((first_row(experiment, text), *rows)).claims[0]
    assert scored.result == result
    assert (result == "HIT") or "one start a side" in (scored.why or "")


@pytest.mark.parametrize(
    ("kinds", "seen"),
    [
        (("auto", "fp8_e4m3"), False),
        (("auto", "auto"), True),
        (("auto", None), False),
        ((None, None), False),
    ],
)
def test_a_lever_that_did_not_reach_the_server_is_named(kinds: tuple[str | None, str | None], seen: bool) -> None:
    experiment = parsed()
    rows = [
        arm_row(experiment, arm, 0, speed(1.0, 1.1), regime=RegimeReached(kv_cache_dtype=kind))
        for arm, kind in zip(("auto", "fp8"), kinds, strict=True)
    ]
    found = answer((first_row(experiment), *rows))
    said = "LEVER NOT SEEN: --kv-cache-dtype fp8_e4m3: the server says kv_cache_dtype auto in both arms"
    assert any(said in line for line in answer_lines(found)) is seen
    assert found.arms[0].unmoved == ()


@pytest.mark.parametrize(
    ("gates", "blind", "outcome", "result"),
    [
        (("350", "275"), "", "no_movement", "HIT"),
        (("350", "275"), "auto", "missing", "UNTESTED"),
        (("350", "275"), "low", "missing", "UNTESTED"),
        (("350", "350"), "low", "no_movement", "HIT"),
    ],
    ids=["seen", "not seen in the control", "not seen in the arm", "a condition of both and no lever"],
)
def test_a_limit_that_nobody_saw_in_force_moved_nothing_and_left_nothing_where_it_was(
    gates: tuple[str, str], blind: str, outcome: str, result: str
) -> None:
    text = LADDER + _SPEED_CLAIM.replace('"fp8"', '"low"')
    text += '[[arms]]\nname = "low"\nparent = "auto"\nconfounded = "two"\n'
    text += f'set = ["gates.power_limit_w={gates[1]}", "seed=3"]\n'
    text = text.replace('name = "auto"\n', f'name = "auto"\nset = ["gates.power_limit_w={gates[0]}"]\n', 1)
    experiment = parsed(text)
    rows = [
        arm_row(experiment, arm, boot, speed(100.0, 100.1), unjudged=("gates",) if arm == blind else ())
        for boot in range(2)
        for arm in ("auto", "low")
    ]
    found = answer((first_row(experiment, text), *rows))
    (compared,) = found.arms[2].compared
    assert (compared.movement.outcome, found.claims[0].result) == (outcome, result)
    if outcome == "missing":
        assert f"nobody could see whether gates.power_limit_w held in {blind}, start 1" in (found.claims[0].why or "")


@pytest.mark.parametrize(
    ("lever", "moved", "unlike"),
    [
        ('set = ["sessions.count=3"]', {"sessions": 3, "concurrency_requested": 3}, ()),
        ('set = ["sessions.count=3"]', {"sessions": 3, "concurrency_requested": 3, "engine": "2"}, ("engine",)),
        ('set = ["sessions.prompt=chat"]', {"prompt_mode": "chat", "tool_results": "as_user"}, ()),
        (
            'flags = {model = "/n"}',
            {"model": "n", "checkpoint_sha256": "n", "quantization": "awq", "dtype": "half"},
            (),
        ),
        ('flags = {quantization = "fp8"}', {"quantization": "fp8"}, ()),
        ("flags = {max-num-seqs = 2}", {"max_num_seqs": 2}, ()),
        ("flags = {max-num-seqs = 2}", {"max_num_seqs": 2, "dtype": "half"}, ("dtype", "max_num_seqs")),
    ],
)
def test_a_lever_that_moves_several_keys_is_one_and_what_moves_beside_it_is_named(
    lever: str, moved: dict[str, object], unlike: tuple[str, ...]
) -> None:
    text = LADDER + f'[[arms]]\nname = "other"\nparent = "auto"\n{lever}\n'
    experiment = parsed(text)
    seen = RegimeReached(engine="1", model="m", checkpoint_sha256="m", dtype="bfloat16", sessions=2)
    rows = (
        arm_row(experiment, "auto", 0, regime=seen),
        arm_row(experiment, "other", 0, regime=msgspec.structs.replace(seen, **moved)),
    )
    assert answer((first_row(experiment, text), *rows)).arms[2].unlike == unlike


@pytest.mark.parametrize(
    ("named", "result", "figure"),
    [
        ("", "UNTESTED", "decode.tokens_per_s"),
        ("depth_tokens = 16384", "HIT", "decode.tokens_per_s at 16384 tokens"),
        ("depth_tokens = 0\nstreams = 4", "UNTESTED", "decode.tokens_per_s"),
        ("streams = 1", "UNTESTED", "decode.tokens_per_s"),
    ],
)
def test_a_claim_that_leaves_depth_or_streams_open_is_about_the_one_figure_that_fits_or_about_none(
    named: str, result: str, figure: str
) -> None:
    text = LADDER + _SPEED_CLAIM.replace("depth_tokens = 0", named)
    experiment = parsed(text)
    figures = [msgspec.structs.replace(speed(100.0, 101.0, depth_tokens=depth), streams=1) for depth in (0, 16384)]
    rows = [arm_row(experiment, arm, boot, *figures) for boot in range(2) for arm in ("auto", "fp8")]
    scored = answer((first_row(experiment, text), *rows)).claims[0]
    assert (scored.result, scored.figure) == (result, figure)
    assert f"({figure}, fp8 / auto" in claim_text(scored)
    if "depth" not in named:
        said = "any of decode.tokens_per_s at 0 tokens, decode.tokens_per_s at 16384 tokens: name depth_tokens"
        assert said in (scored.why or "")


def test_a_register_that_was_changed_afterwards_tests_nothing() -> None:
    text = LADDER + _CLAIM
    experiment = parsed(text)
    first = msgspec.structs.replace(first_row(experiment, text), claims_sha256="0" * 64)
    rows = [arm_row(experiment, arm, 0, _pool(pool)) for arm, pool in (("auto", 1000), ("fp8", 2000))]
    scored = answer((first, *rows)).claims[0]
    assert scored.result == "UNTESTED"
    assert "changed after the start" in (scored.why or "")


def test_rows_come_back_from_their_lines_and_a_torn_last_one_is_left_out() -> None:
    experiment = parsed()
    rows = (first_row(experiment), arm_row(experiment, "auto", 0, speed(1.0), regime=RegimeReached(engine="vllm 1")))
    lines = [encode_row(row) for row in rows]
    assert decode_rows(lines) == rows
    assert decode_rows([*lines[:1], lines[1][:-5]]) == rows[:1]
    with pytest.raises(msgspec.DecodeError):
        decode_rows([lines[0][:-5] + b"\n"])


def test_a_start_that_was_done_again_counts_once_by_its_newest_row() -> None:
    experiment = parsed()
    stopped = arm_row(experiment, "auto", 0, outcome="interrupted")
    done = arm_row(experiment, "auto", 0, speed(1.0))
    assert arm_rows((stopped, done)) == (done,)


def test_results_without_a_first_line_say_nothing() -> None:
    with pytest.raises(ValueError, match="no first line"):
        answer((arm_row(parsed(), "auto", 0),))


def test_figures_that_one_reason_keeps_away_are_one_line() -> None:
    experiment = parsed()
    none = [Measure(name=f"tools.{case}.right", unit="of 1", reason="unsupported: no") for case in ("plain", "two")]
    found = answer((first_row(experiment), arm_row(experiment, "auto", 0, *none, speed(900.0))))
    lines = list(answer_lines(found))
    assert "  tools.plain.right, tools.two.right: n/a (unsupported: no)" in lines
    assert sum("unsupported" in line for line in lines) == 1


def test_the_pool_of_a_start_stands_beside_the_one_that_was_reckoned() -> None:
    experiment = parsed()
    one = Forecast(kv_dtype="float32", pool_tokens=23_296, pool_from="1 GiB")

    def shown(pool: int | None) -> list[str]:
        row = arm_row(experiment, "auto", 0, forecast=one, regime=RegimeReached(pool_tokens=pool))
        found = answer((first_row(experiment), row))
        return [line for line in answer_lines(found) if line.startswith("  pool: ")]

    assert shown(23_296) == ["  pool: 23,296 tokens expected (1 GiB, float32), 23,296 there"]
    assert shown(11_648) == [
        "  pool: 23,296 tokens expected (1 GiB, float32), 11,648 there: OTHER THAN EXPECTED, 0.5 of it"
    ]
    assert shown(None) == []


def test_a_rate_over_the_roofline_is_flagged_and_one_below_is_not() -> None:
    experiment = parsed()
    facts = ModelFacts(read_bytes_per_token=1_000_000, kv_bytes_per_token={"auto": 1000, "fp8": 500})
    known = {"facts": facts, "bandwidth_bytes_per_s": 1e9, "regime": RegimeReached()}
    fair = arm_row(experiment, "auto", 0, speed(900.0, 950.0), **known)
    wild = arm_row(experiment, "fp8", 0, speed(900.0, 1001.0), **known)
    drafted = arm_row(experiment, "fp8", 1, speed(900.0, 1001.0), mean_length=1.5, **known)
    unknown = arm_row(experiment, "auto", 1, speed(5000.0), facts=facts)
    online = msgspec.structs.replace(wild.settings, launch=("vllm", "serve", "m", "--quantization", "fp8"))
    lighter = msgspec.structs.replace(wild, boot=2, settings=online)
    found = answer((first_row(experiment), fair, wild, drafted, unknown, lighter))
    assert found.arms[0].over_roofline == ()
    (said,) = found.arms[1].over_roofline
    assert "1,001 tokens/s at 0 tokens is over the roofline of 1,000" in said
    assert said in "\n".join(answer_lines(found))


def test_a_cache_of_a_smaller_type_is_held_against_the_roofline_of_that_type_or_of_none() -> None:
    experiment = parsed()
    facts = ModelFacts(read_bytes_per_token=1_000_000, kv_bytes_per_token={"auto": 1000, "fp8": 500})
    turbo = Forecast(kv_dtype="turboquant_k8v4", kv_bytes_per_token=400)

    def flags(*values: float, **more: object) -> tuple[str, ...]:
        regime = RegimeReached(kv_cache_dtype="turboquant_k8v4")
        known = {"facts": facts, "bandwidth_bytes_per_s": 1e9, "regime": regime, **more}
        row = arm_row(experiment, "auto", 0, speed(*values, depth_tokens=10_000), **known)
        return answer((first_row(experiment), row)).arms[0].over_roofline

    assert flags(199.0, forecast=turbo) == ()
    (said,) = flags(201.0, forecast=turbo)
    assert "over the roofline of 200 " in said
    assert flags(201.0) == ()


def test_the_speed_of_a_start_stands_nowhere_if_that_of_another_start_of_its_arm_is_withheld() -> None:
    experiment = parsed(LADDER.replace("[vars]", "boots = 2\n[vars]"), MODEL="/m")
    facts = ModelFacts(read_bytes_per_token=1_000_000_000, kv_bytes_per_token={"auto": 1})
    known = {"facts": facts, "bandwidth_bytes_per_s": 1e9, "regime": RegimeReached()}

    def said(withheld: str | None) -> str:
        rows = (
            arm_row(experiment, "auto", 0, speed(50.0, 51.0)),
            arm_row(experiment, "fp8", 0, speed(*(() if withheld else (43_217.0,))), speed_withheld=withheld, **known),
            arm_row(experiment, "fp8", 1, speed(43_217.0, 43_217.0), **known),
        )
        found = answer((first_row(experiment), *rows))
        measures = msgspec.json.encode([(arm.measures, arm.compared, arm.over_roofline) for arm in found.arms]).decode()
        return "\n".join((*answer_lines(found), measures)).replace(",", "")

    assert "43217" in said(None)
    assert "roofline" in said(None)
    assert "43217" not in said("7 of 9 replies degenerate")
    assert "withheld: 7 of 9 replies degenerate" in said("7 of 9 replies degenerate")


@pytest.mark.parametrize(
    ("window", "unlike"),
    [
        ('flags = { "max-model-len" = "auto"', ()),
        ('launch = ["vllm", "serve", "m", "--max-model-len=auto"]\nflags = { "seed" = 1', ()),
        ('flags = { "max-model-len" = 8192', ("kv_cache_dtype", "max_model_len")),
    ],
)
def test_a_window_that_the_server_chooses_by_its_pool_follows_from_the_lever(
    window: str, unlike: tuple[str, ...]
) -> None:
    text = LADDER.replace('flags = { "max-model-len" = 8192', window)
    text = text.replace('launch = ["vllm", "serve", "${MODEL}"', '# ["') if "launch" in window else text
    experiment = parsed(text)
    auto, fp8 = (
        RegimeReached(engine="vllm 0.32.0", kv_cache_dtype=dtype, max_model_len=tokens, pool_tokens=tokens)
        for dtype, tokens in (("auto", 32_768), ("fp8_e4m3", 65_536))
    )
    rows = (arm_row(experiment, "auto", 0, regime=auto), arm_row(experiment, "fp8", 0, regime=fp8))
    assert answer((first_row(experiment, text), *rows)).arms[1].unlike == unlike


def test_taking_turns_and_the_requests_at_once_that_come_of_it_are_one_lever() -> None:
    text = (
        LADDER.replace('flags = { "kv-cache-dtype" = "fp8_e4m3" }', 'set = ["sessions.control=none"]')
        + '[[arms]]\nname = "four"\nparent = "fp8"\nset = ["sessions.at_once=4"]\n'
    )
    experiment = parsed(text.replace('name = "auto"', 'name = "auto"\nset = ["sessions.control=serial"]'))
    regimes = {
        "auto": RegimeReached(concurrency_requested=1, interleaved=8, sessions=8, at_once=8),
        "fp8": RegimeReached(concurrency_requested=8, sessions=8, at_once=8),
        "four": RegimeReached(concurrency_requested=4, sessions=8, at_once=4),
    }
    rows = [arm_row(experiment, arm, 0, regime=regime) for arm, regime in regimes.items()]
    assert [arm.unlike for arm in answer((first_row(experiment, text), *rows)).arms] == [(), (), ()]
