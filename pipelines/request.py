"""Translates sentences with a model server: one output line per input line, in order.

t2t-request --server=localhost:8500 --model_name=NAME --input=FILE --output=FILE
echo "Hello." | t2t-request --server=localhost:8501 --protocol=rest --model_name=NAME
"""

from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.flags import server_access, text_files, translation_output
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.hypothesis_lines import json_lines, text_lines
from t2t_keras.pipelines.command_line.outcomes import Outcomes

if TYPE_CHECKING:
    from t2t_keras.client.model_client import Client

FLAGS = flags.FLAGS

flags.DEFINE_string("server", None, "Address of the model server, as HOST:PORT.")
flags.DEFINE_integer(
    "model_version",
    None,
    "Version of the model to use. Default: the newest.",
    0,
    (1 << 63) - 1,
)
flags.DEFINE_string(
    "version_label",
    None,
    "Label of the version to use. Default: none; the newest version.",
)
flags.DEFINE_enum(
    "protocol", "grpc", ["grpc", "rest"], "Protocol of the server at that port."
)
flags.DEFINE_integer("rows_per_request", 16, "Maximum number of lines per request.", 1)
flags.DEFINE_integer(
    "concurrent_requests", 4, "Maximum number of concurrent requests.", 1
)
flags.DEFINE_float(
    "deadline_s", 60.0, "Timeout of a request in seconds, all retries included.", 0.001
)
flags.DEFINE_integer(
    "retries",
    4,
    "Maximum number of retries of a request if the server is unreachable or "
    "overloaded.",
    0,
    4,
)
flags.DEFINE_bool("tls", False, "Encrypt the connection.")
flags.DEFINE_string(
    "tls_ca_file",
    None,
    "PEM file with the certificate authority of the server. Enables TLS. Default: "
    "the authorities that the system trusts.",
)


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    number = 0
    name = standard_streams.input_name(FLAGS.input)
    outcomes = Outcomes(name, "translated", "the model allows")
    with _client() as client, standard_streams.open_output(FLAGS.output) as output:
        for sources, found in client.stream(
            standard_streams.input_lines(FLAGS.input),
            FLAGS.rows_per_request,
            FLAGS.concurrent_requests,
            wait=not standard_streams.is_interactive(FLAGS.input),
        ):
            found = [row[: FLAGS.n_best] for row in found]
            if FLAGS.output_format == "json":
                lines = json_lines(sources, found)
            else:
                lines = text_lines(found, number + 1)
            output.writelines(f"{line}\n".encode() for line in lines)
            output.flush()
            number += len(sources)
            outcomes.add(best.status for best, *_ in found)
    return outcomes.report()


def _client() -> "Client":
    from t2t_keras.client.grpc_client import GrpcClient
    from t2t_keras.client.rest_client import RestClient

    kinds: dict[str, type[Client]] = {"grpc": GrpcClient, "rest": RestClient}
    return kinds[FLAGS.protocol](
        FLAGS.server,
        FLAGS.model_name,
        version=FLAGS.model_version,
        label=FLAGS.version_label,
        timeout=FLAGS.deadline_s,
        retries=FLAGS.retries,
        tls=FLAGS.tls,
        ca_file=FLAGS.tls_ca_file,
        certificate_file=FLAGS.tls_certificate,
        key_file=FLAGS.tls_key,
        token=server_access.read_token(),
        n_best=FLAGS.n_best > 1,
    )


def run() -> None:
    """Console entry point."""
    stage.run(
        main,
        __name__,
        [text_files, translation_output, server_access],
        required=["server"],
        process="client",
    )


if __name__ == "__main__":
    run()
