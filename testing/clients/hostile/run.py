"""Runs schemathesis against a server for a while: run.py DOCUMENT SECONDS.

TREELINE_URL and TREELINE_TOKEN name the server and a token that may do everything. Ends with 1 where an answer was not
as the document says: a 5xx, a status, header, media type or shape that is not described, a request without a
credential that was served, a request against its schema that was accepted.
"""

import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).parent
document, seconds = sys.argv[1], sys.argv[2]
environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(here), "PYTHONUTF8": "1"}
command = [
    str(pathlib.Path(sys.executable).with_name("schemathesis")),
    "--config-file", str(here / "schemathesis.toml"),
    "run", document,
    "--url", os.environ["TREELINE_URL"],
    "--header", f"Authorization: Bearer {os.environ['TREELINE_TOKEN']}",
    "--max-time", seconds,
    "--checks", "all",
    # What fits the schema may still meet a state that refuses it.
    "--exclude-checks", "positive_data_acceptance",
    "--continue-on-failure",
    "--workers", "2",
    "--generation-database", "none",
    "--generation-unique-inputs",
    "--suppress-health-check", "all",
    "--warnings", "off",
    *sys.argv[3:],
]
sys.exit(subprocess.run(command, env=environment, check=False).returncode)
