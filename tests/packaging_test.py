"""The wheel holds all three folders and its commands run outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_wheel_installs_and_its_command_runs(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={tmp_path}"]
    subprocess.run([*pip, *build, str(ROOT)], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for source in ("flags", "pipelines", "t2t_keras"):
        for path in (ROOT / source).rglob("*.py"):
            inside = path.relative_to(ROOT)
            if source != "t2t_keras":
                inside = "t2t_keras" / inside
            assert str(inside) in names
    assert not [name for name in names if name.startswith(("flags/", "pipelines/"))]
    assert "t2t_keras/py.typed" in names

    installed = tmp_path / "installed"
    install = ["install", "--no-deps", f"--target={installed}", str(wheel)]
    subprocess.run([*pip, *install], check=True, cwd=tmp_path)
    shown = subprocess.run(
        [installed / "bin" / "t2t-translate", "--helpshort"],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--model_dir" in shown.stdout
    assert "--beam_size" in shown.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
