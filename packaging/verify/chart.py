"""chart.py CHART COMPOSE: lints the Helm chart with Helm's own code, renders it in several ways and checks every object
against the schemas of Kubernetes, and checks the Compose file against its schema. Mistakes made on purpose must be found.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from helm_python.chart import Chart, lint

CHART, COMPOSE = Path(sys.argv[1]), Path(sys.argv[2])
TOOLS = Path(sys.executable).parent
OWN = {"publicUrl": "https://treeline.example", "database": {"existingSecret": "db"}}
ALONE = {"publicUrl": "https://treeline.example", "standalone": True}
NO_VOLUME = OWN | {"volume": {"enabled": False}}
STORE = {"name": "TREELINE_STORE_URL", "value": "s3://bucket"}
KEY = {"name": "TREELINE_SECRET_KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}}}
GOOD = {
    "a database of its own": OWN,
    "standalone": ALONE,
    "no volume, and the key among the variables": NO_VOLUME | {"env": [STORE, KEY]},
    "three replicas behind an ingress": NO_VOLUME
    | {
        "replicas": 3,
        "secretKey": {"existingSecret": "key"},
        "env": [STORE],
        "trustedProxies": "10.0.0.0/8",
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "treeline",
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/treeline"}],
    },
}
# Values that are refused, and a part of the reason.
BAD = {
    "no public URL": ({"standalone": True}, "publicUrl is required"),
    "no database": ({"publicUrl": "https://treeline.example"}, "database.existingSecret is required"),
    "two standalone replicas": (ALONE | {"replicas": 2}, "set replicas to 1"),
    "replicas without a common key": (OWN | {"replicas": 2}, "replicas share one key"),
    "replicas with a volume of one node": (
        OWN | {"replicas": 2, "secretKey": {"existingSecret": "key"}},
        "ReadWriteOnce",
    ),
    "standalone without a volume": (ALONE | {"volume": {"enabled": False}}, "set volume.enabled to true"),
    "no volume and no key": (NO_VOLUME | {"env": [STORE]}, "create another key"),
    "no volume and no bucket": (NO_VOLUME | {"env": [KEY]}, "set TREELINE_STORE_URL"),
}


def accepted(program: str, *arguments: str) -> bool:
    return subprocess.run([TOOLS / program, *arguments], capture_output=True).returncode == 0


def is_valid(manifests: str) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(manifests)
        file.flush()
        return accepted("kubernetes-validate", "--strict", "-k", "1.33", file.name)


def compose_is_valid(text: str) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return accepted("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file.name)


chart = Chart.load(CHART)
for what, values in GOOD.items():
    findings = [found for found in lint(CHART, values, strict=True)["messages"] if found["severity"] > 1]
    assert not findings, findings
    rendered = chart.render(values=values, name="verify", namespace="default")
    manifests = "\n---\n".join(text for path, text in rendered.items() if path.endswith(".yaml") and text.strip())
    assert is_valid(manifests), f"{what}:\n{manifests}"
    strategy = "Recreate" if values.get("volume", {}).get("enabled", True) else "RollingUpdate"
    assert f"type: {strategy}" in manifests, f"{what}:\n{manifests}"
    assert not is_valid(manifests.replace("replicas: ", "replicas: n", 1)), "a wrong type was not found"
    print(f"chart: {what}: {manifests.count('apiVersion: ')} objects are valid")
for what, (values, reason) in BAD.items():
    try:
        chart.render(values=values, name="verify", namespace="default")
    except Exception as error:
        assert reason in str(error), f"chart: {what}: refused for another reason: {error}"
        print(f"chart: {what}: refused: {str(error).strip().splitlines()[-1][-100:]}")
    else:
        sys.exit(f"chart: {what}: rendered")
compose = COMPOSE.read_text()
assert compose_is_valid(compose), "compose.yaml does not match the schema"
assert not compose_is_valid(compose.replace("read_only:", "readonly:")), "a misspelled key was not found"
print("compose: valid")
