{{/*
Probes of one service. Health is NOT_SERVING until the service is ready and again from SIGTERM on. The kubelet's gRPC
probe cannot present a certificate, so under mTLS the probe asks for the same health in plain HTTP, on the metrics port;
so it does of what serves HTTP, which answers to its own name only.
Alive is a service whose event loop turns: one that waits for its database, or drains, is not started again for that.
*/}}
{{- define "signalbox.probe" -}}
{{- if or .service.pool (eq .service.protocol "http") (include "signalbox.tlsSecret" .) }}
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
  httpGet:
    port: metrics
    path: /livez
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
readinessProbe:
  {{- include "signalbox.probe" . | trim | nindent 2 }}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 3
livenessProbe:
  httpGet:
    port: metrics
    path: /livez
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}
