# SPDX-License-Identifier: Apache-2.0
"""The CNI answers `Unauthorized`, and no mount is to blame: what is wrong is the token in the kubeconfig. Its writer
went quiet on one node in hundreds (calico#8777, #5712), does not renew it at all (CALICO_MANAGE_CNI=false:
calico#6546; thin Multus: multus-cni#852, #1263, network-operator#1363), has a token of an hour and no watcher
(rke2#9313), or one of a year that ended (Launchpad 2090964); the pod that it was bound to was evicted (calico#4857,
amazon-vpc-cni-k8s#1868, spiderpool#2182); the signing key was rotated (calico#12595, #12941). The containers have the
right directory: a restart for it would be wrong, and nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#8777",
    "projectcalico/calico#5712",
    "projectcalico/calico#6546",
    "k8snetworkplumbingwg/multus-cni#852",
    "k8snetworkplumbingwg/multus-cni#1263",
    "Mellanox/network-operator#1363",
    "rancher/rke2#9313",
    "starlingx/ansible-playbooks 3f409902 (Launchpad 2090964)",
    "projectcalico/calico#4857",
    "aws/amazon-vpc-cni-k8s#1868",
    "spidernet-io/spiderpool#2182",
    "projectcalico/calico#12595",
    "projectcalico/calico#12941",
)
WRITERS = ("calico-node", "kube-multus", "multus-watcher")


def build(host: ScenarioHost) -> None:
    for writer in WRITERS:
        host.old_token(writer)
    host.patch()
    for writer in WRITERS:
        host.container(writer, [Bind(CNI, HOST_CNI)])


EXPECT = Expected()
