"""Checks that BUILD matches the sources, without Bazel.

Every source and test file belongs to a target, and the deps of a target are what its
sources import. A failing test prints the change to make in BUILD.
"""

import ast
import contextlib
import re
import sys
import textwrap
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
# Distributions whose name differs from the package that they install.
DISTRIBUTIONS = {
    "absl": "absl_py",
    "google": "protobuf",
    "grpc": "grpcio",
    "keras_hub": "keras_nlp",  # The older name of keras-hub, which depends on it.
    "grpc_health": "grpcio_health_checking",
    "tensorflow_serving": "tensorflow_serving_api",
    "yaml": "pyyaml",
}
# Dependencies that the sources of a target do not import.
NOT_IMPORTED = {
    "t2t_keras": {
        "@pypi//importlib_resources",  # Imported by tensorflow_datasets, undeclared.
        "@pypi//tensorboard",  # tf.summary imports it at its first use.
    },
}
# BUILD is executed as Python, so it may use only the syntax of Starlark.
STARLARK = (
    *(ast.Module, ast.Expr, ast.Assign, ast.Call, ast.keyword, ast.Name, ast.Attribute),
    *(ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.BinOp, ast.operator),
    *(ast.ListComp, ast.comprehension, ast.expr_context),
)


def read_build():
    """Returns the attributes of each target by name."""
    targets = {}

    def rule(kind):
        def declare(name, **attributes):
            assert name not in targets, f"BUILD declares {name} twice."
            targets[name] = {"rule": kind, **attributes}

        return declare

    def glob(include):
        found = sorted({path for pattern in include for path in ROOT.glob(pattern)})
        assert found, f"BUILD: glob({include}) finds no file."
        return [path.relative_to(ROOT).as_posix() for path in found]

    tree = ast.parse((ROOT / "BUILD").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        assert isinstance(node, STARLARK), f"Not for BUILD: {ast.unparse(node)}"
    names = {kind: rule(kind) for kind in ("genrule", "py_library", "py_binary")}
    names |= {"py_test": rule("py_test"), "glob": glob}
    names |= {"load": lambda *_: None, "package": lambda **_: None}
    exec(compile(tree, "BUILD", "exec"), {"__builtins__": {}, **names})
    return targets


TARGETS = read_build()


def targets_of_rule(rule):
    return [name for name, attributes in TARGETS.items() if attributes["rule"] == rule]


def files(target):
    """Returns the sources of a target by their path at run time."""
    found = {}
    for source in TARGETS[target]["srcs"]:
        if source.startswith(":"):
            copied = TARGETS[source[1:]]
            found.update(zip(copied["outs"], copied["srcs"], strict=True))
        else:
            found[source] = source
    return found


def own_modules():
    """Returns the label of the library of each module of this project."""
    found = {}
    for library in targets_of_rule("py_library"):
        for root in TARGETS[library]["imports"]:
            for path in files(library):
                module = PurePosixPath(path).relative_to(root).with_suffix("")
                found[".".join(module.parts).removesuffix(".__init__")] = f":{library}"
    return found


OWN_MODULES = own_modules()


def syntax(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imported(tree):
    """Returns the dotted names that a file imports, including in subprocesses."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        elif re.fullmatch(r"t2t_keras\.[\w.]*", node.value):  # For `python -m`.
            names.add(node.value.rstrip("."))
        elif "import " in node.value:  # For `python -c`, or prose.
            with contextlib.suppress(SyntaxError):
                names |= imported(ast.parse(textwrap.dedent(node.value)))
    return names


def labels_imported_by(*paths):
    """Returns the labels of everything that files import."""
    labels = set()
    for name in set().union(*(imported(syntax(path)) for path in paths)):
        top, module = name.partition(".")[0], name
        while module and module not in OWN_MODULES:
            module = module.rpartition(".")[0]
        if module:
            labels.add(OWN_MODULES[module])
        elif (ROOT / "tests" / f"{top}.py").exists():
            labels.add(f":{top}")
        elif top not in sys.stdlib_module_names:
            labels.add(f"@pypi//{DISTRIBUTIONS.get(top, top).lower()}")
    return labels


def own_libraries_of(target):
    """Returns the labels of this project's libraries that a target depends on."""
    labels = {dep for dep in TARGETS[target].get("deps", []) if dep.startswith(":")}
    return labels.union(*(own_libraries_of(label[1:]) for label in labels))


def main_block(path):
    """Returns the code of a file's main block, or "" if it has none."""
    last = syntax(path).body[-1:]
    if last and ast.unparse(last[0]).startswith("if __name__ == '__main__':"):
        return ast.unparse(last[0])
    return ""


def build_entry(path, folder, implied):
    """Returns the message with the line to add to BUILD for a stage or a test."""
    name = PurePosixPath(path).relative_to(folder).with_suffix("")
    labels = ", ".join(
        f'"{label}"' for label in sorted(labels_imported_by(path) - implied)
    )
    return f'Add to the dict of {folder} in BUILD:\n        "{name}": [{labels}],'


def python_files(folder, pattern="*.py"):
    paths = sorted((ROOT / folder).rglob(pattern))
    return [path.relative_to(ROOT).as_posix() for path in paths]


STAGES = [path for path in python_files("pipelines") if main_block(path)]
TESTS = python_files("tests", "*_test.py")


@pytest.mark.parametrize("folder", ["t2t_keras", "flags", "pipelines"])
def test_every_source_belongs_to_its_library(folder):
    missing = set(python_files(folder)) - set(files(folder).values())
    assert not missing, f"Add to the files of {folder} in BUILD: {sorted(missing)}"


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_binary(stage):
    assert stage in {TARGETS[name]["main"] for name in targets_of_rule("py_binary")}, (
        build_entry(stage, "pipelines", {":pipelines"} | own_libraries_of("pipelines"))
    )


def test_every_console_script_has_a_binary():
    for stage in assigned("setup.py", "STAGES"):
        target = TARGETS.get(f"t2t-{stage.removesuffix('_model')}", {})
        assert target.get("main") == f"pipelines/{stage}.py", (
            f"setup.py installs t2t-{stage}: BUILD needs a py_binary of that name."
        )


def assigned(path, name):
    """Returns the value of a literal that a file assigns to a name."""
    (value,) = (
        ast.literal_eval(node.value)
        for node in syntax(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == name
    )
    return value


def label(package):
    """Returns the label of a distribution, given with or without a version range."""
    name = re.split("[<>=]", package)[0].lower()
    return f"@pypi//{re.sub('[-.]', '_', name)}"


CORE = {label(package) for package in assigned("setup.py", "CORE")}
EXTRAS = {
    extra: {label(package) for package in packages}
    for extra, packages in assigned("setup.py", "EXTRAS").items()
}


@pytest.mark.parametrize("folder", ["t2t_keras", "flags", "pipelines"])
def test_setup_installs_everything_the_wheel_imports(folder):
    needed = {dep for dep in TARGETS[folder]["deps"] if dep.startswith("@")}
    missing = needed - CORE.union(*EXTRAS.values())
    assert not missing, f"setup.py lacks {sorted(missing)}"


def test_extras_match_those_of_setup():
    checked = assigned("t2t_keras/optional_packages.py", "EXTRAS")
    by_module = {
        extra: {label(DISTRIBUTIONS.get(module, module)) for module in modules}
        for extra, modules in checked.items()
    }
    # An extra may also narrow the version of a core requirement.
    added = {extra: packages - CORE for extra, packages in EXTRAS.items()}
    assert by_module == added


@pytest.mark.parametrize("folder", ["t2t_keras", "flags", "pipelines"])
def test_imports_of_optional_packages_are_guarded(folder):
    for path in files(folder).values():
        imports = labels_imported_by(path) - CORE
        guards = {
            node.args[0].value
            for name in (path, str(PurePosixPath(path).with_name("__init__.py")))
            if (ROOT / name).is_file()
            for node in ast.walk(syntax(name))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "require_extra"
        }
        guarded = set().union(*(EXTRAS[extra] for extra in guards))
        unguarded = {dep for dep in imports if dep.startswith("@")} - guarded
        assert not unguarded, f"{path}: call require_extra before {sorted(unguarded)}"


# Folders of t2t_keras and the modules that they may import (CONTRIBUTING.md).
MAY_IMPORT = {
    "layers": {"layers", "config"},
    "data": {"data", "config"},
    "training": {"training", "config", "layers", "transformer", "runtime"},
    "training_run": {
        *("training_run", "training", "config", "data", "decoding", "evaluation"),
        *("analysis", "model_dir", "transformer", "interrupts"),
    },
    "decoding": {"decoding", "config", "data", "layers", "transformer", "runtime"},
    "export": {"export", "data", "decoding", "transformer", "model_dir"},
    "server": {"server", "server_limits", "export"},
    "client": {"client", "decoding"},
    "interop": {
        *("interop", "config", "data", "decoding", "layers", "training", "transformer"),
        *("export", "model_dir", "model_dir_files"),
    },
    "evaluation": {"evaluation", "data"},
    "analysis": {"analysis", "config", "data", "layers", "transformer"},
    "config": {"config"},
    "flags": {"flags", "config", "decoding", "runtime", "beam_tasks"},
}

EVERYWHERE = {
    *("plurals", "special_tokens", "errors", "optional_packages", "files", "json_file"),
    *("keras_backend", "messages", "web_page", "certificates", "tasks"),
}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folders_import_only_allowed_modules(folder):
    place = ROOT / ("flags" if folder == "flags" else f"t2t_keras/{folder}")
    for path in sorted(place.rglob("*.py")):
        for name in imported(syntax(path.relative_to(ROOT))):
            top, _, rest = name.partition(".")
            part = rest.partition(".")[0]
            allowed = MAY_IMPORT[folder] | EVERYWHERE
            assert top != "t2t_keras" or part in allowed, f"{path} imports {name}"


@pytest.mark.parametrize("test", TESTS)
def test_every_test_file_is_a_py_test(test):
    assert test in {TARGETS[name]["main"] for name in targets_of_rule("py_test")}, (
        build_entry(test, "tests", {":test_support", "@pypi//pytest"})
    )


@pytest.mark.parametrize("test", TESTS)
def test_every_test_file_runs_its_tests(test):
    assert re.search(r"\b(pytest\.main|tf\.test\.main)\(", main_block(test)), (
        f'End {test} with:\nif __name__ == "__main__":\n'
        "    sys.exit(pytest.main([__file__]))"
    )


def test_every_data_file_belongs_to_a_test():
    paths = (path for path in (ROOT / "tests").rglob("*") if path.is_file())
    found = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if path.suffix != ".py" and "__pycache__" not in path.parts
    }
    known = {
        name
        for test in targets_of_rule("py_test")
        for name in TARGETS[test].get("data", [])
    }
    assert not found - known, f"BUILD: data of no py_test: {sorted(found - known)}"


@pytest.mark.parametrize("target", TARGETS)
def test_targets_name_existing_files_and_labels(target):
    attributes = TARGETS[target]
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    pins = set(re.findall(r"^[\w.-]+(?===)", pinned, re.MULTILINE))
    known = {f":{name}" for name in TARGETS}
    known |= {f"@pypi//{re.sub('[-.]', '_', pin)}" for pin in pins}
    main = [attributes["main"]] if "main" in attributes else []
    for kind in ("srcs", "data", "deps"):
        for name in attributes.get(kind, []):
            assert name in known or (ROOT / name).is_file(), (
                f"BUILD: {target} names {name} in {kind}, which does not exist."
            )
    assert set(main) <= set(attributes["srcs"]), (
        f"BUILD: main of {target} is not in srcs."
    )


@pytest.mark.parametrize("target", [t for t in TARGETS if "deps" in TARGETS[t]])
def test_deps_match_the_imports(target):
    deps = set(TARGETS[target]["deps"])
    needed = labels_imported_by(*files(target).values()) - {f":{target}"}
    needed |= NOT_IMPORTED.get(target, set())
    missing = needed - deps - own_libraries_of(target)
    assert not missing, f"BUILD: add to the deps of {target}: {sorted(missing)}"
    if TARGETS[target]["rule"] == "py_test":
        # tests/conftest.py is loaded by pytest, not imported by tests.
        needed |= {":test_support", "@pypi//pytest"}
    unused = deps - needed
    assert not unused, f"BUILD: remove from the deps of {target}: {sorted(unused)}"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
