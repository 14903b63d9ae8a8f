{{- /* The image that everything runs from: the services follow the operator's. */ -}}
{{- define "muster.image" -}}
{{- $tag := .Values.global.tag | default .Chart.AppVersion | toString -}}
{{- $name := "muster" -}}
{{- with .Values.global.registry }}{{ $name = printf "%s/muster" (trimSuffix "/" .) }}{{ end -}}
{{- printf "%s%s%s" $name (contains ":" $tag | ternary "@" ":") $tag -}}
{{- end -}}

{{- /* Which value becomes which field of the Config. Empty ones are left out: the defaults are the operator's. */ -}}
{{- define "muster.fields" -}}
global.securityContext: global.securityContext
global.nodeSelector: global.nodeSelector
global.tolerations: global.tolerations
global.affinity: global.affinity
global.requireDefaultPodAntiAffinityTerm: global.requireDefaultPodAntiAffinityTerm
global.priorityClassName: global.priorityClassName
global.namespaceLabelSelector: global.namespaceLabelSelector
global.podLabelSelector: global.podLabelSelector
global.schedulerName: global.schedulerName
global.queueLabelKey: global.queueLabelKey
global.nodePoolLabelKey: global.nodePoolLabelKey
global.jsonLog: global.jsonLog
global.vpa: global.vpa
global.gpuSharing: admission.gpuSharing
global.blockNvidiaVisibleDevices: admission.blockNvidiaVisibleDevices
global.clusterAutoscaling: nodeScaleAdjuster.service.enabled
global.resourceReservation.namespace: binder.resourceReservation.namespace
global.resourceReservation.serviceAccount: binder.resourceReservation.serviceAccountName
global.resourceReservation.appLabel: binder.resourceReservation.appLabel
global.resourceReservation.runtimeClassName: binder.resourceReservation.runtimeClassName
global.resourceReservation.podResources: binder.resourceReservation.podResources
operator.replicaCount: global.replicaCount
scheduler.enabled: scheduler.service.enabled
scheduler.resources: scheduler.service.resources
scheduler.affinity: scheduler.service.affinity
scheduler.podDisruptionBudget: scheduler.service.podDisruptionBudget
binder.enabled: binder.service.enabled
binder.resources: binder.service.resources
binder.affinity: binder.service.affinity
binder.plugins: binder.plugins
podgrouper.enabled: podGrouper.service.enabled
podgrouper.resources: podGrouper.service.resources
podgrouper.affinity: podGrouper.service.affinity
podgrouper.podDisruptionBudget: podGrouper.service.podDisruptionBudget
podgrouper.genericKartaFallback: podGrouper.args.genericKartaFallback
podgroupcontroller.enabled: podGroupController.service.enabled
podgroupcontroller.resources: podGroupController.service.resources
podgroupcontroller.affinity: podGroupController.service.affinity
queuecontroller.enabled: queueController.service.enabled
queuecontroller.resources: queueController.service.resources
queuecontroller.affinity: queueController.service.affinity
admission.enabled: admission.service.enabled
admission.resources: admission.service.resources
admission.affinity: admission.service.affinity
admission.podDisruptionBudget: admission.service.podDisruptionBudget
admission.gpuFractionRuntimeClassName: admission.gpuFractionRuntimeClassName
nodescaleadjuster.resources: nodeScaleAdjuster.service.resources
nodescaleadjuster.affinity: nodeScaleAdjuster.service.affinity
nodescaleadjuster.scalingPodNamespace: nodeScaleAdjuster.args.nodeScaleNamespace
dashboard.enabled: dashboard.service.enabled
dashboard.resources: dashboard.service.resources
dashboard.affinity: dashboard.service.affinity
dashboard.podDisruptionBudget: dashboard.service.podDisruptionBudget
dashboard.clusterName: dashboard.clusterName
prometheus.enabled: prometheus.enabled
prometheus.externalPrometheusUrl: prometheus.externalPrometheusUrl
{{- end -}}

{{- /* The spec of the Config, as JSON. */ -}}
{{- define "muster.config" -}}
{{- $spec := dict "namespace" .Release.Namespace -}}
{{- $values := .Values -}}
{{- range $from, $to := include "muster.fields" . | fromYaml -}}
{{- $value := $values -}}
{{- range splitList "." $from -}}{{- $value = get ($value | default dict) . -}}{{- end -}}
{{- if or $value (kindIs "bool" $value) -}}
{{- $place := $spec -}}
{{- $parts := splitList "." $to -}}
{{- range initial $parts -}}
{{- if not (hasKey $place .) -}}{{- $_ := set $place . dict -}}{{- end -}}
{{- $place = get $place . -}}
{{- end -}}
{{- $_ := set $place (last $parts) $value -}}
{{- end -}}
{{- end -}}
{{- with .Values.global.imagePullSecrets -}}
{{- $names := list -}}
{{- range . -}}{{- $names = append $names .name -}}{{- end -}}
{{- $_ := set $spec.global "additionalImagePullSecrets" $names -}}
{{- end -}}
{{- mustMergeOverwrite $spec (deepCopy .Values.config) | toJson -}}
{{- end -}}

{{- /* The spec of the shard `default`, as JSON. */ -}}
{{- define "muster.shard" -}}
{{- $spec := dict -}}
{{- range list "placementStrategy" "plugins" "actions" "args" "scenarioSearchBudgets" -}}
{{- $value := get $.Values.scheduler . -}}
{{- if $value -}}{{- $_ := set $spec . $value -}}{{- end -}}
{{- end -}}
{{- mustMergeOverwrite $spec (deepCopy .Values.shard) | toJson -}}
{{- end -}}
