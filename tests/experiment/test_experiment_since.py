"""The same experiment twice: a drift is flagged, none is said to be none, and unlike runs are not compared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from experimenttools import arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.page import fleet_html
from infermaxx_tui.core.experiment.since import Since, same_question, since, since_lines
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.reached import RegimeReached
from infermaxx_tui.experiment.command import write_fleet
from infermaxx_tui.experiment.folder import create
from infermaxx_tui.experiment.swept import Swept, compare, keep, last_lines
from infermaxx_tui.rundir import RunError


def _answer(*rates: float, **regime: object) -> Answer:
    experiment = parsed()
    seen = msgspec.structs.replace(RegimeReached(engine="vllm 0.32.0"), **regime)
    rows = [
        arm_row(experiment, arm, boot, speed(rate, rate * 1.001, rate * 0.999), regime=seen)
        for boot, rate in enumerate(rates)
        for arm in ("auto", "fp8")
    ]
    return answer((first_row(experiment), *rows))


def _since(now: Answer, last: Answer) -> Since:
    return since("now", now, "last", last)


def test_a_fleet_that_became_slower_is_flagged_by_arm_and_figure() -> None:
    found = _since(_answer(90.0, 90.2), _answer(100.0, 100.2))
    assert found.drift == "moved"
    assert [change.outcome for _, change in found.arms[0].moved] == ["down"]
    said = "\n".join(since_lines(found))
    assert "now against last: MOVED" in said
    assert "  auto: WORSE: decode.tokens_per_s at 0 tokens: " in said


def test_no_movement_is_written_as_an_answer() -> None:
    found = _since(_answer(100.0, 100.1), _answer(100.0, 100.2))
    assert found.drift == "none"
    assert found.arms[0].same == 1
    assert next(iter(since_lines(found))) == "ladder: now against last: no movement in 2 figures"


def test_one_start_a_side_is_said_beside_what_moved_and_what_did_not() -> None:
    once, twice = _since(_answer(100.0), _answer(100.2)), _since(_answer(100.0, 100.1), _answer(100.0, 100.2))
    assert [arm.one_start for arm in (*once.arms, *twice.arms)] == [True, True, False, False]
    said = ["\n".join(since_lines(one)) for one in (once, twice)]
    assert ["one start a side: what another start would change" in text for text in said] == [True, False]


def test_a_figure_that_nobody_took_this_time_is_counted_and_not_dropped() -> None:
    experiment = parsed()
    pool = Measure(name="pool.tokens", unit="tokens", values=(65_536.0,), better="more")
    noted = Measure(name="depth.reached_tokens", unit="tokens", values=(900.0,))

    def one(*more: Measure) -> Answer:
        rows = [arm_row(experiment, arm, boot, speed(99.9, 100.1), *more) for boot in (0, 1) for arm in ("auto", "fp8")]
        return answer((first_row(experiment), *rows))

    found = _since(one(), one(pool, noted))
    assert (found.drift, [arm.missing for arm in found.arms]) == ("none", [1, 1])
    assert next(iter(since_lines(found))) == "ladder: now against last: no movement in 2 figures, 2 cannot say"
    assert [arm.missing for arm in _since(one(pool), one(pool)).arms] == [0, 0]


def test_another_engine_is_not_like_for_like() -> None:
    found = _since(_answer(50.0, 50.1, engine="vllm 0.33.0"), _answer(100.0, 100.1))
    assert found.drift == "not_compared"
    assert found.arms[0].unlike == ("engine",)
    said = "\n".join(since_lines(found))
    assert "now against last: NOT COMPARED" in said
    assert "not like for like: engine" in said
    assert "no movement" not in said


def test_the_first_of_its_kind_and_other_arms_have_nothing_beside_them() -> None:
    one = _answer(100.0, 100.1)
    assert "the first of its kind" in next(iter(since_lines(since("now", one, None, None))))
    other = msgspec.structs.replace(
        one, registered=msgspec.structs.replace(one.registered, arms=one.registered.arms[:1])
    )
    assert same_question(one, one)
    assert not same_question(one, other)
    played = [
        msgspec.structs.replace(one, registered=msgspec.structs.replace(one.registered, scenario_sha256=sha256))
        for sha256 in ("a", "b", "")
    ]
    assert not same_question(played[0], played[1]), "another scenario asks something else"
    assert same_question(played[0], played[2]), "nobody wrote down what an earlier program played"


def test_what_does_not_resolve_is_no_absence_of_movement() -> None:
    found = _since(_answer(100.0, 60.0), _answer(100.0, 140.0))
    assert found.drift == "unresolved"
    assert next(iter(since_lines(found))) == "ladder: now against last: CANNOT SAY: none of 2 figures resolves"


def test_an_arm_of_which_nothing_resolves_is_not_answered_by_another_arm() -> None:
    """What cron asks is whether each arm is as it was; an answer that could not be had is not that nothing moved."""
    experiment = parsed()
    steady, loose = ((100.0, 100.1), (100.0, 100.2)), ((100.0, 60.0), (100.0, 140.0))

    def both(at: int) -> Answer:
        rows = [
            arm_row(experiment, arm, boot, speed(rate, rate * 1.001), *(speed(rate, depth_tokens=512),))
            for arm, rates in (("auto", steady[at]), ("fp8", loose[at]))
            for boot, rate in enumerate(rates)
        ]
        return answer((first_row(experiment), *rows))

    found = _since(both(0), both(1))
    assert [(arm.same, arm.unresolved, arm.undecided) for arm in found.arms] == [(2, 0, False), (0, 2, True)]
    assert found.drift == "partly"
    said = next(iter(since_lines(found)))
    assert said == "ladder: now against last: no movement in 2 figures, 2 cannot say; 1 of 2 arms CANNOT SAY"


def test_a_verdict_that_turned_is_a_movement_although_no_figure_moved() -> None:
    now, last = _answer(100.0, 100.1), _answer(100.0, 100.1)
    sick = [msgspec.structs.replace(row, verdict="FAIL", checks={"isolation": "fail"}) for row in now.arms[1].rows]
    now = msgspec.structs.replace(now, arms=(now.arms[0], msgspec.structs.replace(now.arms[1], rows=tuple(sick))))
    found = _since(now, last)
    assert found.drift == "moved"
    said = "\n".join(since_lines(found))
    assert "fp8: FAIL (isolation), FAIL (isolation) (VERDICT MOVED: was PASS, PASS); 0 moved, 1 did not" in said


def test_a_start_that_failed_stands_there_although_nothing_was_before() -> None:
    experiment = parsed()
    row = arm_row(experiment, "auto", 0, outcome="boot_failed", verdict=None, reason="no such model")
    first = answer((first_row(experiment), row))
    said = list(since_lines(since("now", first, None, None)))
    assert "  auto: boot failed; start 1: boot failed: no such model" in said
    whole = _answer(100.0, 100.1)
    failed = msgspec.structs.replace(whole.arms[1], failed=("start 2: boot failed: no such model",))
    found = _since(msgspec.structs.replace(whole, arms=(whole.arms[0], failed)), whole)
    assert found.drift == "partly"
    text = "\n".join(since_lines(found))
    assert "no movement in 1 figure; 1 of 2 arms NOT COMPARED" in text
    assert "not compared: start 2: boot failed: no such model" in text


def test_figures_that_are_only_noted_do_not_drift() -> None:
    experiment = parsed()
    held = [
        answer(
            (
                first_row(experiment),
                *(
                    arm_row(experiment, "auto", boot, Measure(name="pool.held_tokens", unit="tokens", values=(value,)))
                    for boot, value in enumerate((tokens, tokens + 1))
                ),
            )
        )
        for tokens in (16_392.0, 12_000.0)
    ]
    assert _since(*held).arms[0].moved == ()


def _folder(root: Path, at: str, found: Answer) -> str:
    made = create(root, f"202601{at}-000000", "ladder", f"00{at}")
    made.append(found.registered)
    for arm in found.arms:
        for row in arm.rows:
            made.append(row)
    return made.id


def test_the_last_one_that_is_like_for_like_is_looked_for_and_small_steps_add_up(tmp_path: Path) -> None:
    rates = {"01": 100.0, "02": 99.0, "03": 98.0, "04": 97.0}
    names = {at: _folder(tmp_path, at, _answer(rate, rate * 1.001)) for at, rate in rates.items()}
    _folder(tmp_path, "05", _answer(50.0, 50.1, engine="vllm 0.33.0"))
    now = _answer(96.0, 96.1)
    last, first = compare(tmp_path, _folder(tmp_path, "06", now), now)
    assert (last.last, last.skipped, last.drift) == (names["04"], 1, "none")
    assert first is not None
    assert (first.last, first.drift) == (names["01"], "moved")
    swept = Swept(1, "ladder.toml", "conducted", last, first, last.drift)
    assert not swept.quiet, "small steps that add up are a movement"
    said = list(swept.lines())
    assert "(1 newer, not like for like): no movement" in said[0]
    assert f"  since the first like it, {names['01']}:" in said
    assert "moved -4.0 %" in said[-1]


def test_what_became_better_by_small_steps_is_said_and_wakes_nobody(tmp_path: Path) -> None:
    for at, rate in (("01", 96.0), ("02", 98.0)):
        _folder(tmp_path, at, _answer(rate, rate * 1.001))
    now = _answer(100.0, 100.1)
    last, first = compare(tmp_path, _folder(tmp_path, "03", now), now)
    assert first is not None
    assert (last.drift, first.drift, [arm.worse for arm in first.arms]) == ("none", "moved", [False, False])
    swept = Swept(1, "ladder.toml", "conducted", last, first, last.drift)
    assert swept.quiet
    assert "  auto: better: decode" in "\n".join(swept.lines())
    unsaid = Swept(1, "ladder.toml", "conducted", last, None, "unresolved")
    assert not unsaid.quiet, "who cannot say does not say that nothing moved"
    assert Swept(1, "ladder.toml", "conducted", last, None, "first").quiet


def test_without_one_that_is_like_for_like_the_newest_says_why(tmp_path: Path) -> None:
    _folder(tmp_path, "01", _answer(100.0, 100.1, engine="vllm 0.33.0"))
    now = _answer(96.0, 96.1)
    last, first = compare(tmp_path, _folder(tmp_path, "02", now), now)
    assert (last.drift, first) == ("not_compared", None)
    assert compare(tmp_path / "gone", "now", now)[0].drift == "first"


def test_the_newest_line_of_each_file_is_read_back_and_a_torn_one_left_out(tmp_path: Path) -> None:
    assert list(last_lines(tmp_path)) == []
    keep(tmp_path, Swept(1, "a.toml", "not conducted: old", None))
    found = _since(_answer(90.0, 90.2), _answer(100.0, 100.2))
    keep(tmp_path, Swept(2, "a.toml", "conducted", found, None, found.drift))
    keep(tmp_path, Swept(3, "b.toml", "not conducted: no such model", None))
    with (tmp_path / "experiments" / "sweeps.jsonl").open("ab") as file:
        file.write(b'{"at_ms":4')
    said = last_lines(tmp_path)
    assert said[0].endswith(", a.toml")
    assert said[1] == "  ladder: now against last: MOVED"
    assert said[-1] == "  b.toml: not conducted: no such model"
    assert "ladder: now against last: MOVED" in fleet_html((), since=said)


def test_what_cannot_be_written_is_said_in_one_line_and_is_no_fault_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "experiments").write_text("no folder", encoding="utf-8")
    for write in (lambda: keep(tmp_path, Swept(1, "a.toml", "conducted", None)), lambda: write_fleet(tmp_path)):
        with pytest.raises(RunError, match="cannot be written") as caught:
            write()
        assert "\n" not in str(caught.value)
