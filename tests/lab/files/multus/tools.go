// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the commands that the lab builds from pinned modules.
package tools

import (
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/thin_entrypoint"
)
