"""The layers hold: import-linter's contracts, and what no import rule can say."""

from __future__ import annotations

import ast
import subprocess
import sysconfig
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "infermaxx_tui"
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_LONGEST = 400
_IMPURE = {"open", "print", "input", "breakpoint"}


def test_the_import_contracts_are_kept() -> None:
    program = Path(sysconfig.get_path("scripts")) / "lint-imports"
    if not program.exists():
        pytest.skip("import-linter is not installed beside this Python")
    done = subprocess.run([program, "--no-cache"], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_a_module_is_short_and_says_why_it_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if not text:
        return
    assert ast.get_docstring(tree), "no docstring"
    assert "from __future__ import annotations" in text or len(tree.body) <= 2
    assert len(text.splitlines()) <= _LONGEST


@pytest.mark.parametrize("path", sorted((_PACKAGE / "core").rglob("*.py")), ids=lambda path: path.name)
def test_core_reads_and_writes_nothing(path: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not {func.id for func in calls if isinstance(func, ast.Name)} & _IMPURE


def test_only_the_console_writes_to_stdout() -> None:
    allowed = {"console.py", "process.py", "sim/__main__.py"}
    for path in _MODULES:
        name = str(path.relative_to(_PACKAGE))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert "print" not in names, name
        assert name in allowed or "stdout" not in _written(tree), name


def _written(tree: ast.Module) -> set[str]:
    """Streams that a module writes to by name."""
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("write", "writelines")
            and isinstance(node.value, ast.Attribute)
        ):
            found.add(node.value.attr)
    return found
