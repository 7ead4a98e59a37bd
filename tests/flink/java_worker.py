"""What the `boot` program of Beam's Java image does, as far as a worker on this machine needs it.

A TaskManager starts it (environment PROCESS) with the addresses of its services; it asks for the
options of the pipeline and becomes the Java worker. LDPBEAM_JAVA_WORKER is its class path.
"""

import os
import sys

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    endpoints_pb2,
)
from google.protobuf import json_format, text_format

# As in cluster.py, whose imports would take a worker longer than all it does here.
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def main() -> None:
    # Prism puts values into quotes, as a shell would take off.
    words = (word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    given = {name: value.strip("'") for name, value in words}
    service = beam_provision_api_pb2_grpc.ProvisionServiceStub(
        grpc.insecure_channel(given["provision_endpoint"])
    )
    info = service.GetProvisionInfo(
        beam_provision_api_pb2.GetProvisionInfoRequest(), metadata=[("worker_id", given["id"])]
    ).info

    def endpoint(name: str) -> str:
        url = given.get(name) or getattr(info, name).url
        return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=url))

    os.environ.update(
        HARNESS_ID=given["id"],
        PIPELINE_OPTIONS=json_format.MessageToJson(info.pipeline_options),
        CONTROL_API_SERVICE_DESCRIPTOR=endpoint("control_endpoint"),
        LOGGING_API_SERVICE_DESCRIPTOR=endpoint("logging_endpoint"),
        RUNNER_CAPABILITIES=" ".join(info.runner_capabilities),
    )
    path = os.environ["LDPBEAM_JAVA_WORKER"]
    harness = "org.apache.beam.fn.harness.FnHarness"
    os.execvp(
        "java", ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, harness]
    )


if __name__ == "__main__":
    main()
