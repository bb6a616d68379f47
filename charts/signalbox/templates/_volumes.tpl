{{/*
Files of one service: each secret key and each configuration file is mounted on its own path, and nothing else of the
Secret. /tmp is the only place that can be written to.
*/}}
{{- define "signalbox.volumeMounts" -}}
- name: scratch
  mountPath: /tmp
{{- if include "signalbox.tlsSecret" . }}
- name: tls
  mountPath: /etc/signalbox/tls
  readOnly: true
{{- end }}
{{- if include "signalbox.secretFiles" (list .root .service) | fromYaml }}
- name: secrets
  mountPath: /etc/signalbox/secrets
  readOnly: true
{{- end }}
{{- if .service.files }}
- name: files
  mountPath: /etc/signalbox/files
  readOnly: true
{{- end }}
{{- if and .service.usesModel (include "signalbox.promptsConfigMap" .root) }}
- name: prompts
  mountPath: /etc/signalbox/prompts
  readOnly: true
{{- end }}
{{- end -}}

{{- define "signalbox.volumes" -}}
{{- $context := . -}}
- name: scratch
  emptyDir:
    sizeLimit: {{ .service.scratch }}
{{- with include "signalbox.tlsSecret" . }}
- name: tls
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- with include "signalbox.secretFiles" (list .root .service) | fromYaml }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $setting, $ref := . }}
      - secret:
          name: {{ include "signalbox.secretName" (list $context.root $ref.secret (printf "services.%s.secretFiles.%s" $context.name $setting)) | quote }}
          items:
            - key: {{ $ref.key | quote }}
              path: {{ printf "%s/%s" $ref.secret $ref.key | quote }}
      {{- end }}
{{- end }}
{{- with .service.files }}
- name: files
  configMap:
    name: {{ include "signalbox.configMapName" $context | quote }}
    items:
      {{- range . }}
      - key: {{ .name | quote }}
        path: {{ .name | quote }}
      {{- end }}
{{- end }}
{{- if .service.usesModel }}
{{- with include "signalbox.promptsConfigMap" .root }}
- name: prompts
  configMap:
    name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
