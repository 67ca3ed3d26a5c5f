// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the commands that the lab builds from pinned modules.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
