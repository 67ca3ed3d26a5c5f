# SPDX-License-Identifier: Apache-2.0
"""The lab: real OSTree nodes with systemd, containerd and kubelet on one machine."""
