//go:build tools

// Package helm names the program that is built, so that `go mod tidy` records what it needs.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
