"""The chart on a cluster: one that KUBECONFIG names, or a control plane that is started here (KUBEBUILDER_ASSETS)."""
