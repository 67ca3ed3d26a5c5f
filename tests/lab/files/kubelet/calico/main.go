// SPDX-License-Identifier: Apache-2.0

// Calico stands in for calico-node's refresher of the CNI plugin's credential, of which no registry has the module: a
// token that is not bound to a pod, by TokenRequest, written in place into the kubeconfig that the host reads.
//
// As projectcalico/calico node/pkg/cni/token_watch.go does: the first request at once, the next when a quarter of the
// token's time is over; the file is truncated, mode 0600 when it is made. Its words in the log are the same too, and
// come as well when nobody reads that file any more.
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	file     = "/host/etc/cni/net.d/calico-kubeconfig"
	account  = "calico-cni-plugin"
	validity = 24 * time.Hour
	retry    = 5 * time.Second
)

const kubeconfig = `# Kubeconfig file for Calico CNI plugin. Installed by calico/node.
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: %s
    certificate-authority-data: "%s"
users:
- name: calico
  user:
    token: %s
contexts:
- name: calico-context
  context:
    cluster: local
    user: calico
current-context: calico-context`

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	client := core.NewForConfigOrDie(config)
	for {
		pause, err := refresh(client, config)
		if err != nil {
			fmt.Printf("Failed to update CNI token, retrying...: %v\n", err)
			pause = retry
		} else {
			fmt.Println("Wrote updated CNI kubeconfig file.")
		}
		time.Sleep(pause)
	}
}

func refresh(client core.CoreV1Interface, config *rest.Config) (time.Duration, error) {
	seconds := int64(validity.Seconds())
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	given, err := client.ServiceAccounts("kube-system").CreateToken(
		context.Background(), account, request, meta.CreateOptions{})
	if err != nil {
		return 0, err
	}
	authority, err := os.ReadFile(config.TLSClientConfig.CAFile)
	if err != nil {
		return 0, err
	}
	text := fmt.Sprintf(kubeconfig, config.Host, base64.StdEncoding.EncodeToString(authority), given.Status.Token)
	return time.Until(given.Status.ExpirationTimestamp.Time) / 4, os.WriteFile(file, []byte(text), 0o600)
}
