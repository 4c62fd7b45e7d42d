"""Checks the documentation against the commands and their flags."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from absl import flags

from t2t_keras.evaluation.bleu import SCORES
from t2t_keras.pipelines import (  # noqa: F401  (they define flags)
    average,
    complexity,
    cost,
    evaluate,
    export,
    import_model,
    launch,
    parse,
    prepare,
    request,
    score,
    serve,
    train,
    translate,
    variations,
    visualize,
)

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.*")),
    *sorted((ROOT / "deploy").glob("*.*")),
]
STAGES = (
    "prepare|train|average|evaluate|score|translate|launch|import|export|serve|request|"
    "parse|visualize|variations|complexity|cost"
)

# Flags without a default that some stage requires.
REQUIRED = {
    *("data_dir", "model_dir", "output_dir", "export_dir", "server"),
    *("source_text", "translations", "input"),
}
PLAIN_ZERO = {
    *("min_length", "worker_index", "sample_seed", "cldr_seed", "tree_substitutions"),
    *("seed", "batch_timeout_micros"),
}
UNITS = {
    "_s": "second",
    "_seconds": "second",
    "_minutes": "minute",
    "_ms": "millisecond",
    "_micros": "microsecond|^Ignored",
    "_bytes": "bytes",
    "_mb": "MiB",
    "_tokens": "tokens",
    "_steps": "step",
}


def commands(text):
    """Yields the flags of every t2t command in a text."""
    joined = re.sub(r"\\\n", " ", text)
    for found in re.finditer(rf"\bt2t-(?:{STAGES})\b([^\n#`|'&>]*)", joined):
        words = [word for word in found[1].split() if word.startswith("--")]
        if "--" in words and any(word.startswith("--runner") for word in words):
            words = words[: words.index("--")]  # The rest are options of Beam.
        if words:
            yield words


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_flags_in_documentation_exist(path):
    if path.suffix == ".svg":
        return
    for words in commands(path.read_text()):
        for word in words:
            name = word.lstrip("-").partition("=")[0]
            if name:
                known = name in flags.FLAGS or name.removeprefix("no") in flags.FLAGS
                assert known, f"{path.name}: there is no --{name}"


def own_flags():
    by_module = flags.FLAGS.flags_by_module_dict()
    return [
        flag
        for module, defined in by_module.items()
        if module.startswith("t2t_keras.")
        for flag in defined
    ]


@pytest.mark.parametrize("flag", own_flags(), ids=lambda flag: flag.name)
def test_help_has_complete_sentences_default_and_unit(flag):
    # absl prepends the values of an enum to its help.
    text = re.sub(r"^<[^>]*>: ", "", flag.help)
    assert re.match(r"[A-Z]|sacreBLEU|[a-z]+BLEU", text), text
    assert text.endswith("."), text
    assert "  " not in text
    for word in ("[", "so many", "likeliest", "held-back", "Of --", "None"):
        assert word not in text, text
    # absl shows defaults other than None. The help explains the effect of None.
    if flag.default is None and flag.name not in REQUIRED:
        assert re.search(r"Default: .|^Ignored: |^Not supported: ", text), text
    # The help explains a default of 0 that has a special meaning.
    if flag.default == 0 and not isinstance(flag.default, bool | float):
        assert "(0 = " in text or flag.name in PLAIN_ZERO, text
    for suffix, unit in UNITS.items():
        if flag.name.endswith(suffix):
            assert re.search(unit, text, re.IGNORECASE), text


def test_every_score_is_explained():
    page = (ROOT / "docs" / "reproduce.md").read_text()
    for name in SCORES:
        assert f"`{name}`" in page
        assert re.search(rf"\b{name}\b", flags.FLAGS["scores"].help)


def test_kubernetes_manifest_is_one_indexed_job_of_all_workers():
    service, job = yaml.safe_load_all((ROOT / "docs" / "kubernetes.yaml").read_text())
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    assert service["spec"]["clusterIP"] == "None"
    name = job["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = pod["containers"]
    words = shlex.split(container["args"][0])
    assert words[:2] == ["exec", "t2t-train"]
    given = dict(word.lstrip("-").split("=", 1) for word in words[2:])
    workers = given["workers"].split(",")
    (port,) = (entry["containerPort"] for entry in container["ports"])
    # A pod of an indexed job is named after the job and its index.
    assert workers == [
        f"{name}-{i}.{pod['subdomain']}:{port}" for i in range(len(workers))
    ]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == len(workers)
    assert given["worker_index"] == "$JOB_COMPLETION_INDEX"
    (mount,) = container["volumeMounts"]
    assert given["model_dir"].startswith(mount["mountPath"])
    assert mount["name"] in [volume["name"] for volume in pod["volumes"]]


def test_slurm_script_starts_a_worker_on_each_machine(tmp_path):
    """Runs the script with stand-ins for Slurm's own commands."""
    stand_ins = {
        "scontrol": 'if [ "$1" = show ]; then printf "n1\\nn2\\n"; '
        'else echo "scontrol $*" >> log; fi',
        "srun": 'shift; for i in 0 1; do SLURM_PROCID=$i "$@" || exit $?; done',
        "t2t-train": 'echo "train $*" >> log; exit $STATUS',
    }
    for name, body in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for status, expected in (("0", 0), ("75", 75)):
        (tmp_path / "log").write_text("")
        done = subprocess.run(
            ["bash", str(ROOT / "docs" / "train.slurm")],
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}:/usr/bin:/bin",
                "SLURM_JOB_NODELIST": "n[1-2]",
                "SLURM_JOB_ID": "7",
                "STATUS": status,
            },
            check=False,
        )
        log = (tmp_path / "log").read_text()
        assert done.returncode == expected
        assert "--workers=n1:2222,n2:2222 --worker_index=0" in log
        assert ("scontrol requeue 7" in log) == (status == "75")
        assert ("--worker_index=1" in log) == (status == "0")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
