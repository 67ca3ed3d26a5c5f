# SPDX-License-Identifier: Apache-2.0
"""A node that has an API server, to which its kubelet belongs: with real tokens, and what no controller makes here."""

import base64
import json
import re
import secrets
import time

from tests.lab import api
from tests.lab.api import CORE, Api, ApiRefused, Object
from tests.lab.daemons import ADDRESS, PROJECTED, SYSTEM
from tests.lab.errors import NodeFailed
from tests.lab.node import Node
from tests.lab.plan import DEFAULT, Choice
from tests.lab.run import run

SERVER = f"https://{ADDRESS}:{api.PORT}"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CALICO = "/etc/cni/net.d/calico-kubeconfig"
WHEREABOUTS = "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig"
MULTUS = "/etc/cni/net.d/multus.d/multus.kubeconfig"
CONFIGURATION = "/etc/cni/net.d/00-multus.conf"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = f"{CORE}/namespaces/{SYSTEM}/serviceaccounts"


class Cluster:
    """One node that is all of a cluster. Make it with boot()."""

    def __init__(self, node: Node, api: Api) -> None:
        self.node = node
        self.api = api

    @classmethod
    def boot(cls, product: Choice = DEFAULT) -> "Cluster":
        """A new node, its API server and its kubelet, which is Ready. The caller destroys the node."""
        node = Node.create(product=product)
        try:
            admin = _install(node)
            node.boot()
            made = cls(node, Api(node, node.disk.newest() / "etc/lab/cluster/api.crt", admin))
            made._fill()
            node.wait(made._ready, 30, "the node is Ready")
            return made
        except BaseException:
            node.destroy()
            raise

    def _ready(self) -> bool:
        conditions = self.api.get(f"{CORE}/nodes/{self.node.name}")["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _fill(self) -> None:
        """What a controller manager would make, and what the manifests of Multus and Calico bring."""
        authority = (self.node.disk.newest() / "etc/lab/cluster/api.crt").read_text()
        for namespace in ("default", SYSTEM):
            self.node.wait(lambda where=namespace: self.api.get(f"{CORE}/namespaces/{where}"), 20, namespace)  # type: ignore[misc]
            data = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}}
            self.api.create(f"{CORE}/namespaces/{namespace}/configmaps", data)
            self.account("default", namespace)
        for name in ("multus", "calico-node", "calico-cni-plugin", "whereabouts"):
            self.account(name)
        self._allow("multus", [
            {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "update"]},
            {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        ])  # fmt: skip
        self._allow("calico-node", [
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["calico-cni-plugin"],
             "verbs": ["create"]},
        ])  # fmt: skip

    def account(self, name: str, namespace: str = SYSTEM) -> None:
        """A ServiceAccount."""
        self.api.create(f"{CORE}/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})

    def _allow(self, name: str, rules: list[Object]) -> None:
        self.api.create(f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}]
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}
        self.api.create(f"{_RBAC}/clusterrolebindings", binding)

    # -- pods -----------------------------------------------------------------------------------------------

    def start(self, pod: Object) -> str:
        """Give a pod to this node, as a scheduler does; its name."""
        pod["spec"]["nodeName"] = self.node.name
        name: str = pod["metadata"]["name"]
        self.api.create(f"{CORE}/namespaces/{pod['metadata']['namespace']}/pods", pod)
        return name

    def pod(self, name: str, namespace: str = "default") -> Object:
        """A pod as the API server has it."""
        return self.api.get(f"{CORE}/namespaces/{namespace}/pods/{name}")

    def remove(self, name: str, namespace: str = "default") -> None:
        """Delete a pod, and wait until nothing of it runs."""
        self.api.delete(f"{CORE}/namespaces/{namespace}/pods/{name}")
        self.node.wait(lambda: not self.node.containers(name), 20, f"pod {name} is gone")

    def events(self, pod: str, reason: str) -> list[str]:
        """What was said of a pod under that reason, whoever said it."""
        found = self.api.items(f"{CORE}/namespaces/default/events?fieldSelector=involvedObject.name={pod}")
        return [str(one.get("message") or one.get("note")) for one in found if one["reason"] == reason]

    # -- credentials ----------------------------------------------------------------------------------------

    def start_writer(self, pod: Object) -> str:
        """A writer of the CNI's credential, once the host's file is of its making; its name."""
        begun = int(time.time())
        name = self.start(pod)
        uid = self.pod(name, SYSTEM)["metadata"]["uid"]

        def written() -> bool:
            if name.startswith("calico-node"):
                return bool(claims(self.token(CALICO))["iat"] >= begun)
            if name.startswith("whereabouts"):
                return bound_to(self.token(WHEREABOUTS)) == uid
            return bound_to(self.token(MULTUS)) == uid and self._configured()

        self.node.wait(written, 30, f"{name} has written what the host reads")
        return name

    def _configured(self) -> bool:
        return bool(self.node.sh(["cat", CONFIGURATION]).stdout)

    def token(self, path: str) -> str:
        """The one in the host's kubeconfig."""
        found = re.search(r"token: \"?([\w.-]+)", self.node.sh(["cat", path]).stdout)
        if found is None:
            raise NodeFailed(f"no token in {path}")
        return found.group(1)

    def projected(self, uid: str) -> str:
        """The token that kubelet has for a pod."""
        folder = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/{PROJECTED}"
        return self.node.sh(["cat", f"{folder}/token"]).stdout

    def accepts(self, token: str) -> bool:
        """Whether the API server knows who has that token. It remembers for 10 s that it did."""
        try:
            self.api.call("GET", "/version", token=token)
        except ApiRefused as error:
            if error.status != 401:
                raise
            return False
        return True

    def interfaces(self, pod: str) -> list[Object]:
        """What Multus has noted on a pod of the networks that it has."""
        text = self.pod(pod)["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/network-status", "[]")
        return list(json.loads(text))


def _install(node: Node) -> str:
    """Keys, tokens and what turns the units on, into the /etc of a node that is off; the administrator's token."""
    etc = node.disk.newest() / "etc"
    folder = etc / "lab/cluster"
    folder.mkdir(parents=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    names = f"subjectAltName=IP:{ADDRESS},IP:127.0.0.1"
    run(["openssl", "req", "-x509", *key, "-keyout", str(folder / "api.key"), "-out", str(folder / "api.crt"),
         "-days", "30", "-subj", "/CN=kube-apiserver", "-addext", names], timeout=30)  # fmt: skip
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(folder / "accounts.key")],
        timeout=30)  # fmt: skip
    admin, kubelet = secrets.token_hex(16), secrets.token_hex(16)
    (folder / "tokens.csv").write_text(
        f'{admin},admin,admin,"system:masters"\n{kubelet},system:node:{node.name},{node.name},"system:nodes"\n'
    )
    (etc / "default/kubelet").write_text(f"KUBELET_EXTRA_ARGS=--kubeconfig {KUBECONFIG} --node-ip {ADDRESS}\n")
    authority = base64.b64encode((folder / "api.crt").read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": SERVER, "certificate-authority-data": authority}}],
        "users": [{"name": "kubelet", "user": {"token": kubelet}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "kubelet"}}],
        "current-context": "lab",
    }
    (etc / KUBECONFIG[len("/etc/") :]).write_text(json.dumps(config))
    return admin


def claims(token: str) -> Object:
    """What a token says of itself."""
    body = token.split(".")[1]
    found: Object = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def bound_to(token: str) -> str:
    """The uid of the pod that it ends with; empty if it does not."""
    return str(claims(token)["kubernetes.io"].get("pod", {}).get("uid", ""))
