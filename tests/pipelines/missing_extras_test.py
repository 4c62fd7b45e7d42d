"""Stages name the extra that installs a missing optional package."""

import sys

import command
import pytest


@pytest.mark.parametrize(
    ("stage", "flags", "purpose", "missing", "extra"),
    [
        (
            "serve",
            ["--model_base_path=versions"],
            "t2t_keras.server",
            "grpc_health, h11, prometheus_client, starlette, uvicorn",
            "server",
        ),
        (
            "prepare",
            ["--corpus=cldr", "--data_dir=data"],
            "The corpus cldr",
            "babel, num2words",
            "cldr",
        ),
        (
            "visualize",
            ["--model_dir=m", "--source_text=a", "--output_dir=out"],
            "Drawing pictures (--pictures)",
            "matplotlib",
            "visualize",
        ),
        (
            "complexity",
            ["--output_dir=out"],
            "t2t-complexity",
            "matplotlib",
            "visualize",
        ),
        (
            "evaluate",
            ["--hypothesis=h", "--reference=r", "--scores=bleu,bleu_moses_split"],
            "The score bleu_moses_split",
            "sacremoses",
            "moses",
        ),
    ],
)
def test_missing_package_is_named_with_the_command_that_installs_it(
    stage, flags, purpose, missing, extra, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    process = command.stage(stage, *flags, status=2, extras=[])
    assert process.stderr == (
        f"error: {purpose} needs packages that are not installed ({missing}). "
        f"Install them: pip install 't2t_keras[{extra}]'\n"
    )
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
