//go:build tools

// Package kube names what is built of this minor; made by build.sh --tidy.
package kube

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
