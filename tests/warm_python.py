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


def become(module, arguments, directory, environment, files):
    """Goes on as `python -m MODULE ARGUMENTS`."""
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
