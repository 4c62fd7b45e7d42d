"""A Python process that has loaded TensorFlow and forks stages on request.

Each stage is still a separate process, with its own command line, environment, files
and exit status. This saves the seconds that importing TensorFlow takes.
"""

import json
import os
import runpy
import sys


def main():
    """Reads commands from standard input, one per line, and prints their status."""
    import keras  # noqa: F401
    import tensorflow  # noqa: F401
    import tensorflow_text  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        command = json.loads(line)
        pid = os.fork()
        if not pid:
            run_module_as_main(**command)
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class HidingFinder:
    """A module finder that hides some packages."""

    def __init__(self, finder, missing):
        self._finder = finder
        self._missing = missing

    def find_spec(self, name, path=None, target=None):
        if name in self._missing:
            return None
        return self._finder.find_spec(name, path, target)

    def find_distributions(self, context):
        # Some finders find only modules.
        find = getattr(self._finder, "find_distributions", None)
        return find(context) if find and context.name not in self._missing else []

    def __getattr__(self, name):
        return getattr(self._finder, name)


def run_module_as_main(module, arguments, directory, environment, files, missing):
    """Continues as `python -m MODULE ARGUMENTS`, without the missing modules."""
    sys.meta_path[:] = [HidingFinder(finder, missing) for finder in sys.meta_path]
    for name in [*sys.modules]:
        if name.partition(".")[0] in missing:
            del sys.modules[name]
    for descriptor, (path, flags) in enumerate(
        zip(files, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
    ):
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = directory
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
