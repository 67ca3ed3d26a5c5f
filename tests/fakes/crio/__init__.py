# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CRI-O: its files, its socket and its habits in front of a containerd that does the work.

CRI-O itself is packaged nowhere that these tests may fetch from. Each habit says where it was read; "measured" is with
CRI-O 1.37.0 (f954a17e505f), started by hand on cgroup v1. What it is not: no conmon, no storage of its own, and
whatever the handler is, containerd's runc runs the pod. Only the tests import this; the product reaches it as it
reaches CRI-O, by its socket and by systemd. Needs Python 3.11 and grpc."""
