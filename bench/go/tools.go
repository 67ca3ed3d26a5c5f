// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the command that the bench builds from pinned modules.
package tools

import _ "sigs.k8s.io/cri-tools/cmd/crictl"
