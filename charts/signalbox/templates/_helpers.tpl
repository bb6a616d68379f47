{{/* Name of every object of the release, before the service's own part: short enough for that and a Job's, in 63. */}}
{{- define "signalbox.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 32 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]" $full) -}}
{{- fail (printf "the release is named %s, and a Service's name must begin with a letter: set fullnameOverride" .Release.Name) -}}
{{- end -}}
{{- $full -}}
{{- end -}}
{{- end -}}

{{/* Object name of one service. Takes (list root service-name). */}}
{{- define "signalbox.serviceName" -}}
{{- printf "%s-%s" (include "signalbox.fullname" (index . 0)) (index . 1 | replace "_" "-") -}}
{{- end -}}

{{/* Labels that select the pods of one service: never change, a Deployment's selector is immutable. */}}
{{- define "signalbox.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .name | replace "_" "-" | quote }}
{{- end -}}

{{/* Labels of pods: no versions, as a changed label is a rollout. Takes the service as well. */}}
{{- define "signalbox.podLabels" -}}
{{ include "signalbox.selectorLabels" . }}
app.kubernetes.io/part-of: signalbox
{{- include "signalbox.givenLabels" (list .root .service.podLabels) }}
{{- end -}}

{{- define "signalbox.labels" -}}
{{ include "signalbox.selectorLabels" . }}
app.kubernetes.io/part-of: signalbox
{{- include "signalbox.givenLabels" (list .root dict) }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of what belongs to the release, and to none of its services. Takes (list root labels-of-its-own). */}}
{{- define "signalbox.releaseLabels" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: signalbox
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- include "signalbox.givenLabels" . }}
{{- end -}}

{{/* Labels that the values give: of all objects, and over them those of one. Takes (list root labels-of-its-own). */}}
{{- define "signalbox.givenLabels" -}}
{{- with mustMergeOverwrite (deepCopy (default dict (first .).Values.commonLabels)) (default dict (last .)) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of pods: the chart's, and over them those that the values give. */}}
{{- define "signalbox.podAnnotations" -}}
{{- $annotations := dict "kubectl.kubernetes.io/default-container" (.name | replace "_" "-") -}}
{{- if .root.Values.metrics.scrapeAnnotations -}}
{{- $port := toString .root.Values.metrics.port -}}
{{- $annotations = merge $annotations (dict "prometheus.io/scrape" "true" "prometheus.io/port" $port "prometheus.io/path" "/metrics") -}}
{{- end -}}
{{- if and .service.files (not .service.configMap) -}}
{{- $_ := set $annotations "checksum/files" (toJson .service.files | sha256sum) -}}
{{- end -}}
{{- if and .service.usesModel .root.Values.prompts.files -}}
{{- $_ := set $annotations "checksum/prompts" (toJson .root.Values.prompts.files | sha256sum) -}}
{{- end -}}
{{- mustMergeOverwrite $annotations (default dict .service.podAnnotations) | toYaml -}}
{{- end -}}

{{/* Where the pods of one service may be, Jobs as well. */}}
{{- define "signalbox.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Image of one service: its own reference, or <prefix><service> by its digest, or by the tag of all. */}}
{{- define "signalbox.image" -}}
{{- $name := printf "%s%s" .root.Values.image.prefix (.name | replace "_" "-") -}}
{{- if .service.image -}}
{{- .service.image -}}
{{- else if .service.digest -}}
{{- printf "%s@%s" $name .service.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What a pod needs to be allowed to do: nothing. */}}
{{- define "signalbox.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := .Values.podSecurity }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  {{- if .Values.podSecurity.fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "signalbox.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "signalbox.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Name of the Secret behind an alias of `secrets`. Takes (list root alias what-asks). */}}
{{- define "signalbox.secretName" -}}
{{- $root := index . 0 -}}
{{- required (printf "secrets.%s is missing or empty, and %s needs it" (index . 1) (index . 2)) (get $root.Values.secrets (index . 1)) -}}
{{- end -}}

{{/* Secret with the certificate of one service, or nothing. The stand-in for a model is for development, without TLS.
A pool has one of its own, if any: with that of all others it could be any of them. */}}
{{- define "signalbox.tlsSecret" -}}
{{- if .service.servesTls -}}
{{- default (ternary "" .root.Values.tls.secret (default false .service.pool)) .service.tlsSecret -}}
{{- end -}}
{{- end -}}

{{/* What a port says that it speaks (`appProtocol`); nothing for gRPC under TLS. */}}
{{- define "signalbox.appProtocol" -}}
{{- $tls := include "signalbox.tlsSecret" . -}}
{{- if eq .service.protocol "http" -}}
{{- ternary "https" "http" (ne $tls "") -}}
{{- else if not $tls -}}
kubernetes.io/h2c
{{- end -}}
{{- end -}}

{{/* ConfigMap with prompts: an existing one, the chart's own, or nothing. */}}
{{- define "signalbox.promptsConfigMap" -}}
{{- if and .Values.prompts.configMap .Values.prompts.files -}}
{{- fail "prompts.files and prompts.configMap are both set: empty one of them" -}}
{{- end -}}
{{- if .Values.prompts.files -}}
{{- include "signalbox.serviceName" (list . "prompts") -}}
{{- else -}}
{{- .Values.prompts.configMap -}}
{{- end -}}
{{- end -}}

{{/* ConfigMap with the files of one service: an existing one, or the chart's own. */}}
{{- define "signalbox.configMapName" -}}
{{- default (include "signalbox.serviceName" (list .root .name)) .service.configMap -}}
{{- end -}}
