"""Start-up time of a command: until --help is printed or the first line translated."""

import importlib.metadata
import resource
import subprocess
import time

import common
import multi30k

parser = common.sizes(__doc__)
parser.add_argument("--command", required=True, help="a stage, or: first line")
sizes = parser.parse_args()

if sizes.command == "first line":
    command = multi30k.command(
        "translate",
        f"--model_dir={multi30k.MODEL}",
        f"--decode_precision={sizes.precision}",
        *multi30k.SEARCH,
    )
else:
    command = multi30k.command(sizes.command, "--help")
text = multi30k.TEST.read_text().splitlines(keepends=True)[0]
started = time.time()
process = subprocess.Popen(
    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
assert process.stdin
assert process.stdout
if sizes.command == "first line":
    process.stdin.write(text)
    process.stdin.flush()
    # Keep the input open: the first answer must not wait for its end.
    line = process.stdout.readline()
    seconds = time.time() - started
    process.communicate()
else:
    line = process.communicate()[0]
    seconds = time.time() - started
assert line.strip(), command
common.report(
    rate=1 / seconds,
    seconds=seconds,
    version=importlib.metadata.version("tensorflow"),
    peak_memory_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
)
