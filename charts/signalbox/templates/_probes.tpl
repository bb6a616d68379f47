{{/*
Probes of one service. Health is NOT_SERVING until the service is ready and again from SIGTERM on. The kubelet's gRPC
probe cannot present a certificate, so under mTLS the probes ask for the same health in plain HTTP, on the metrics port.
*/}}
{{- define "signalbox.probe" -}}
{{- if eq .service.protocol "http" }}
httpGet:
  port: http
  path: /healthz
{{- else if include "signalbox.tlsSecret" . }}
httpGet:
  port: metrics
  path: /healthz
{{- else }}
grpc:
  port: {{ .service.port }}
{{- end }}
{{- end -}}

{{- define "signalbox.probes" -}}
startupProbe:
  {{- include "signalbox.probe" . | trim | nindent 2 }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
readinessProbe:
  {{- include "signalbox.probe" . | trim | nindent 2 }}
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
livenessProbe:
  {{- include "signalbox.probe" . | trim | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}
