"""Tests of the wheel: metadata, files, and commands outside the checkout."""

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    subprocess.run([*PIP, *build, str(ROOT)], check=True, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def read(wheel, ending):
    """Returns the text of the only file in a wheel with a given name ending."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name).decode("utf-8")


def test_metadata_names_license_author_and_readme(wheel):
    metadata = Parser().parsestr(read(wheel, ".dist-info/METADATA"))
    assert metadata["Name"] == "t2t-keras"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "the t2t_keras authors"
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata.get_payload().strip() == readme.strip()
    license_text = read(wheel, ".dist-info/licenses/LICENSE")
    assert license_text == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_citation_has_the_packaged_version(wheel):
    metadata = Parser().parsestr(read(wheel, ".dist-info/METADATA"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == metadata["Version"]
    assert citation["license"] == metadata["License-Expression"]
    assert citation["references"][0]["title"] == "Attention Is All You Need"


def test_wheel_installs_and_its_command_runs(wheel, tmp_path):
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
    subprocess.run([*PIP, *install], check=True, cwd=tmp_path)
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
