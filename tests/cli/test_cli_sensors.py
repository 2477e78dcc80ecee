"""GPU sensors of whole runs as a user starts them: made-up cards, none at all, a command, and an address of nothing."""

from __future__ import annotations

from pathlib import Path

from clitools import Done, Place, log_of

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode


def probes_of(folder: Path) -> list[ev.GpuProbed]:
    return [event for event in log_of(folder) if isinstance(event, ev.GpuProbed)]


def reads_of(folder: Path) -> list[ev.GpuRead]:
    return [event for event in log_of(folder) if isinstance(event, ev.GpuRead)]


def test_the_demos_cards_are_made_up_and_say_so(passed: tuple[Done, Path]) -> None:
    done, folder = passed
    probe = probes_of(folder)[0].probe
    assert probe.simulated
    assert probe.cards[0].server
    reads = reads_of(folder)
    assert len(reads) >= 2
    assert reads[0].slow_ms is not None, "the first round has all readings"
    assert reads[-1].slow_ms is not None, "and so has the last, so that energy covers the run"
    assert done.verdict["regime"]["gpu"] == probe.cards[0].name
    assert done.verdict["simulated"] is True


def test_the_sensors_are_read_until_the_last_line_and_after_the_first(passed: tuple[Done, Path]) -> None:
    log = log_of(passed[1])
    assert isinstance(log[-1], ev.RunEnded)
    places = [at for at, event in enumerate(log) if isinstance(event, ev.GpuRead)]
    assert 0 < places[0] < places[-1] < len(log) - 1


def test_a_run_without_sensors_keeps_the_reason(place: Place, small: Path, server: str) -> None:
    done = place.run("run", str(small), "--headless", "--json", "--url", server, "--no-gpu")
    assert done.code == ExitCode.PASS
    (folder,) = place.folders
    assert "switched off" in (probes_of(folder)[0].probe.error or "")
    assert all(read.gpus == () for read in reads_of(folder))
    assert done.verdict["regime"]["gpu"] is None
    assert "switched off" in done.verdict["regime"]["missing"]["gpu"]


def test_a_sensor_command_that_fails_ends_no_run(place: Place, small: Path, server: str) -> None:
    flags = ("--set", "sensors.gpu=true", "--sensor-cmd", "echo broken >&2; exit 9")
    done = place.run("run", str(small), "--headless", "--json", "--url", server, *flags)
    assert done.code == ExitCode.PASS
    (folder,) = place.folders
    errors = [probed.probe.error for probed in probes_of(folder) if probed.probe.source == "command"]
    assert errors == ["command: exited with 9: broken"]


def test_readings_of_a_command_stand_in_the_log(place: Place, small: Path, server: str) -> None:
    command = "while true; do echo hotspot_c=97 power_w=300; sleep 0.2; done"
    done = place.run("run", str(small), "--headless", "--json", "--url", server, "--sensor-cmd", command)
    assert done.code == ExitCode.PASS
    (folder,) = place.folders
    found = [one for read in reads_of(folder) for one in read.gpus if one.hotspot_c is not None]
    assert found
    assert found[0].power_w == 300.0


def test_what_makes_no_sense_is_refused_before_anything_starts(place: Place, small: Path) -> None:
    for flags, said in (
        (("--gpu-metrics", "host:9400"), "sensors.metrics_url"),
        (("--gpu-metrics", "http://user:key@host:9400/metrics"), "without a user, a password or a query"),
        (("--gpu-ssh=-oProxyCommand=evil",), "sensors.ssh"),
        (("--sensor-cmd", " "), "sensors.command"),
        (("--set", "sensors.interval_s=0.01"), "sensors.interval_s"),
        (("--set", "sensors.gpus=1"), "unknown key"),
        (("--gpu-metrics", "http://h/metrics", "--gpu-ssh", "h"), "keep one of them"),
    ):
        done = place.inside("run", str(small), "--headless", "--url", "http://127.0.0.1:9", *flags)
        assert done.code == ExitCode.USAGE, flags
        assert said in done.complaint
    assert place.folders == []


def test_an_exporter_that_is_not_there_ends_no_run(place: Place, small: Path, server: str, free_port: int) -> None:
    flags = ("--gpu-metrics", f"http://127.0.0.1:{free_port}/metrics")
    done = place.run("run", str(small), "--headless", "--json", "--url", server, *flags)
    assert done.code == ExitCode.PASS
    assert "ConnectError" in done.verdict["regime"]["missing"]["gpu"]
