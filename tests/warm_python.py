"""A Python that has loaded TensorFlow and becomes a stage whenever it is asked to.

Each stage is a process of its own all the same: a fork, with its own command line,
environment, files and exit status. What is saved are the seconds of each start.
"""

import json
import os
import runpy
import sys


def main():
    """Reads a command on each line of standard input; prints the status of each."""
    import keras  # noqa: F401
    import tensorflow  # noqa: F401
    import tensorflow_text  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        command = json.loads(line)
        pid = os.fork()
        if not pid:
            become(**command)
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Without:
    """A finder of modules to which some packages are not installed."""

    def __init__(self, finder, missing):
        self._finder = finder
        self._missing = missing

    def find_spec(self, name, path=None, target=None):
        if name in self._missing:
            return None
        return self._finder.find_spec(name, path, target)

    def find_distributions(self, context):
        # Some finders know modules alone.
        find = getattr(self._finder, "find_distributions", None)
        return find(context) if find and context.name not in self._missing else []

    def __getattr__(self, name):
        return getattr(self._finder, name)


def become(module, arguments, directory, environment, files, missing):
    """Goes on as `python -m MODULE ARGUMENTS`, without some modules."""
    sys.meta_path[:] = [Without(finder, missing) for finder in sys.meta_path]
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
