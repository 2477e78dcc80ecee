"""What doctor says of the packages that the program runs on: installed, merely importable, or not there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infermaxx_tui.doctor.host import NEEDED, host_items, package_items, version_of

ROOT = Path(__file__).parent.parent.parent


def test_the_list_is_that_of_the_project() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert sorted(NEEDED) == sorted(re.split(r"[><=; ]", line)[0] for line in wanted)


def test_each_package_is_named_with_its_version() -> None:
    said = next(item for item in host_items(None) if item.name == "packages")
    assert said.state == "ok"
    for name in NEEDED:
        if name != "backports.zstd":
            assert re.search(rf"\b{re.escape(name)} \d", said.said), name


def test_a_package_without_a_distribution_is_known_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imx_versioned.py").write_text('__version__ = "1.2"\n')
    (tmp_path / "imx_silent.py").write_text("")
    (tmp_path / "imx_broken.py").write_text("import imx_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version_of("imx-versioned", "imx_versioned") == "1.2 (by its module)"
    assert version_of("imx-silent", "imx_silent") == "of an unknown version"
    assert version_of("imx-broken", "imx_broken") is None
    assert version_of("imx-none", "imx_none") is None
    assert (version_of("pytest", "imx_none") or "")[0].isdigit()


def test_nothing_is_called_ok_that_was_not_found() -> None:
    found = {item.name: item for item in package_items({"a": "1.0", "b": None})}
    assert (found["packages"].state, found["packages"].said) == ("ok", "a 1.0")
    assert (found["packages missing"].state, found["packages missing"].said) == ("bad", "b")
    assert [item.name for item in package_items({"b": None})][:1] == ["packages missing"]


def test_from_a_folder_it_says_so_and_still_knows_its_packages(tmp_path: Path) -> None:
    """As on a host where the wheels lie in a folder: the program is no distribution there."""
    (tmp_path / "infermaxx_tui").symlink_to(ROOT / "infermaxx_tui")
    code = (
        "import importlib.metadata as m, sys; real = m.version\n"
        "def version(name):\n"
        "    if name == 'infermaxx-tui': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from infermaxx_tui.doctor.host import host_items\n"
        "for item in host_items(None): print(item.name, item.state, item.said)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(r"^packages ok anyio \d", done.stdout, re.MULTILINE)
    assert "program note runs from a folder" in done.stdout
