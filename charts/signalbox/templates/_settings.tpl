{{/*
The settings of one service, as `env` entries by name. Each setting comes from exactly one place; a setting given twice,
or left empty, stops the rendering with a message that names it.
*/}}
{{- define "signalbox.settings" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- $service := .service -}}
{{- $where := printf "services.%s" $name -}}
{{- $entries := list
  (list "SIGNALBOX_LISTEN" (dict "value" (printf "0.0.0.0:%v" $service.port)))
  (list "SIGNALBOX_METRICS_LISTEN" (dict "value" (printf "0.0.0.0:%v" $root.Values.metrics.port)))
  (list "SIGNALBOX_LOG_LEVEL" (dict "value" $root.Values.logLevel))
  (list "SIGNALBOX_SHUTDOWN_GRACE_S" (dict "value" (toString $root.Values.shutdownGraceS)))
-}}
{{- if $service.drainS -}}
{{- $entries = append $entries (list "SIGNALBOX_DRAIN_S" (dict "value" (toString $service.drainS))) -}}
{{- end -}}
{{- with $root.Values.otlpEndpoint -}}
{{- $entries = append $entries (list "SIGNALBOX_OTLP_ENDPOINT" (dict "value" .)) -}}
{{- end -}}
{{- if include "signalbox.tlsSecret" . -}}
{{- range $setting, $file := dict "SIGNALBOX_TLS_CERT" "tls.crt" "SIGNALBOX_TLS_KEY" "tls.key" "SIGNALBOX_TLS_CA" "ca.crt" -}}
{{- $entries = append $entries (list $setting (dict "value" (printf "/etc/signalbox/tls/%s" $file))) -}}
{{- end -}}
{{- end -}}
{{- if $service.usesModel -}}
{{- $entries = append $entries (list "SIGNALBOX_MODEL_BASE_URL" (dict "value" (include "signalbox.modelBaseUrl" $root))) -}}
{{- if and $root.Values.model.baseUrl $root.Values.model.apiKey.secret -}}
{{- $entries = append $entries (list "SIGNALBOX_MODEL_API_KEY" (include "signalbox.secretRef" (list $root $root.Values.model.apiKey "model.apiKey") | fromYaml)) -}}
{{- end -}}
{{- if $root.Values.models -}}
{{- $entries = append $entries (list "SIGNALBOX_MODELS" (dict "value" (toJson $root.Values.models))) -}}
{{- end -}}
{{- end -}}
{{- if and $service.usesModel (include "signalbox.promptsConfigMap" $root) -}}
{{- $entries = append $entries (list "SIGNALBOX_PROMPTS_DIR" (dict "value" "/etc/signalbox/prompts")) -}}
{{- end -}}
{{- if $service.usesPolicies -}}
{{- $entries = append $entries (list "SIGNALBOX_POLICIES" (dict "value" (toJson $root.Values.policies))) -}}
{{- end -}}
{{- if or $service.usesPolicies $service.pool -}}
{{- range $setting, $key := dict "SIGNALBOX_RELEASE_REVISION" "revision" "SIGNALBOX_CHANGED_BY" "changed-by" "SIGNALBOX_CHANGE_REASON" "reason" -}}
{{- /* By reference: a revision that changes nothing else starts no pod anew. */ -}}
{{- $entries = append $entries (list $setting (dict "valueFrom" (dict "configMapKeyRef" (dict "name" (include "signalbox.serviceName" (list $root "change")) "key" $key "optional" true)))) -}}
{{- end -}}
{{- end -}}
{{- range $setting, $target := include "signalbox.targets" (list $root $service) | fromYaml -}}
{{- $entries = append $entries (list $setting (dict "value" (include "signalbox.target" (list $root $target (printf "%s.targets.%s" $where $setting))))) -}}
{{- end -}}
{{- range $setting, $source := $service.lists -}}
{{- if not (hasKey $service.env $setting) -}}
{{- $entries = append $entries (list $setting (dict "value" (include "signalbox.list" (list $root $source (printf "%s.lists.%s" $where $setting) (printf "%s.env.%s" $where $setting))))) -}}
{{- end -}}
{{- end -}}
{{- range $setting, $value := $service.env -}}
{{- if eq (toString $value) "" -}}
{{- fail (printf "%s.env.%s is empty: give it a value, or set it to null to leave it out" $where $setting) -}}
{{- end -}}
{{- if and (kindIs "string" $value) (has $setting (include "signalbox.names.jsonSettings" $ | splitList " ")) -}}
{{- with (fromJson $value).Error -}}
{{- if kindIs "string" . -}}
{{- fail (printf "%s.env.%s is not JSON: %s" $where $setting .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* As JSON writes it: as text of its own, Helm writes ten million as 1e+07. */ -}}
{{- $entries = append $entries (list $setting (dict "value" (ternary $value (toJson $value) (kindIs "string" $value)))) -}}
{{- end -}}
{{- range $setting, $ref := $service.secretEnv -}}
{{- $entries = append $entries (list $setting (include "signalbox.secretRef" (list $root $ref (printf "%s.secretEnv.%s" $where $setting)) | fromYaml)) -}}
{{- end -}}
{{- range $setting, $ref := include "signalbox.secretFiles" (list $root $service) | fromYaml -}}
{{- $entries = append $entries (list $setting (dict "value" (printf "/etc/signalbox/secrets/%s/%s" $ref.secret $ref.key))) -}}
{{- end -}}
{{- range $setting, $file := $service.files -}}
{{- $entries = append $entries (list $setting (dict "value" (printf "/etc/signalbox/files/%s" $file.name))) -}}
{{- end -}}
{{- range $service.extraEnv -}}
{{- if hasPrefix "SIGNALBOX_" .name -}}
{{- fail (printf "%s.extraEnv names %s: settings go to env, secretEnv, secretFiles or files" $where .name) -}}
{{- end -}}
{{- end -}}
{{- $settings := dict -}}
{{- range $entries -}}
{{- $setting := first . -}}
{{- if hasKey $settings $setting -}}
{{- fail (printf "%s sets %s twice: settings come from one of targets, env, secretEnv, secretFiles, files, or from the chart itself" $where $setting) -}}
{{- end -}}
{{- $_ := set $settings $setting (last .) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{/* Those of them that a Job of the service asks for. Takes (list context job), the job as its values have it: `migration`. */}}
{{- define "signalbox.jobSettings" -}}
{{- $context := first . -}}
{{- $settings := include "signalbox.settings" $context | fromYaml -}}
{{- $given := dict -}}
{{- range $setting := (get $context.service (last .)).optionalSettings -}}
{{- if hasKey $settings $setting -}}
{{- $_ := set $given $setting (get $settings $setting) -}}
{{- end -}}
{{- end -}}
{{- range $setting := (get $context.service (last .)).settings -}}
{{- if not (hasKey $settings $setting) -}}
{{- fail (printf "services.%s.%s.settings names %s, which the service does not set" $context.name (last $) $setting) -}}
{{- end -}}
{{- $_ := set $given $setting (get $settings $setting) -}}
{{- end -}}
{{- toYaml $given -}}
{{- end -}}

{{/* Settings as a list for a container's `env`. */}}
{{- define "signalbox.env" -}}
{{- range $setting, $entry := . }}
- name: {{ $setting }}
  {{- toYaml $entry | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
A list in another service's YAML file, parted by commas: the one at `key`, or with `values` what stands at those paths in
each entry of the mapping there. Takes (list root {service, file, key, values} what-asks setting-instead).
*/}}
{{- define "signalbox.list" -}}
{{- $source := index . 1 -}}
{{- $service := include "signalbox.enabledService" (list (index . 0) $source.service (index . 2)) | fromYaml -}}
{{- $file := get $service.files $source.file | default dict -}}
{{- if $service.configMap -}}
{{- fail (printf "the chart does not see the ConfigMap %s, where services.%s.files.%s is: give its list `%s`, parted by commas, in %s" $service.configMap $source.service $source.file (default (list $source.key) $source.values | join "`, `") (index . 3)) -}}
{{- end -}}
{{- $document := fromYaml (default "" $file.content) -}}
{{- if hasKey $document "Error" -}}
{{- fail (printf "services.%s.files.%s.content is not a YAML mapping: %s" $source.service $source.file $document.Error) -}}
{{- end -}}
{{- $found := get $document $source.key -}}
{{- if $source.values -}}
{{- include "signalbox.valuesAt" (list (default dict $found) $source.values) -}}
{{- else -}}
{{- join "," (default list $found) -}}
{{- end -}}
{{- end -}}

{{/* What stands at some paths in each entry of a mapping, each once, parted by commas. Takes (list mapping paths). */}}
{{- define "signalbox.valuesAt" -}}
{{- $found := list -}}
{{- $paths := index . 1 -}}
{{- range $entry := index . 0 -}}
{{- range $path := $paths -}}
{{- $at := $entry -}}
{{- range splitList "." $path -}}
{{- $at = get (ternary $at dict (kindIs "map" $at)) . -}}
{{- end -}}
{{- if and $at (kindIs "string" $at) -}}
{{- $found = append $found $at -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found | uniq | join "," -}}
{{- end -}}

{{/* Files of Secrets that a service gets: not those that go `with` a service that is not enabled. Takes (list root service). */}}
{{- define "signalbox.secretFiles" -}}
{{- $root := index . 0 -}}
{{- $files := dict -}}
{{- range $setting, $ref := (index . 1).secretFiles -}}
{{- $other := mustMergeOverwrite (deepCopy $root.Values.serviceDefaults) (deepCopy (default (dict "enabled" false) (get $root.Values.services (default "" $ref.with)))) -}}
{{- if or (not $ref.with) $other.enabled -}}
{{- $_ := set $files $setting $ref -}}
{{- end -}}
{{- end -}}
{{- toYaml $files -}}
{{- end -}}

{{/* Takes (list root {secret, key} what-asks). */}}
{{- define "signalbox.secretRef" -}}
{{- $ref := index . 1 -}}
valueFrom:
  secretKeyRef:
    name: {{ include "signalbox.secretName" (list (index . 0) $ref.secret (index . 2)) | quote }}
    key: {{ $ref.key | quote }}
{{- end -}}

{{/* gRPC target of a service: every ready pod, by the headless Service's DNS. Takes (list root service-name what-asks). */}}
{{- define "signalbox.target" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $service := include "signalbox.enabledService" . | fromYaml -}}
{{- printf "dns:///%s.%s.svc:%v" (include "signalbox.serviceName" (list $root $name)) $root.Release.Namespace $service.port -}}
{{- end -}}

{{/* Whom a service calls, by setting: its targets, and those of its optional ones that are there. Takes (list root service). */}}
{{- define "signalbox.targets" -}}
{{- $root := index . 0 -}}
{{- $service := index . 1 -}}
{{- $targets := dict -}}
{{- range $setting, $name := $service.optionalTargets -}}
{{- $called := mustMergeOverwrite (deepCopy $root.Values.serviceDefaults) (deepCopy (default (dict "enabled" false) (get $root.Values.services $name))) -}}
{{- if $called.enabled -}}
{{- $_ := set $targets $setting $name -}}
{{- end -}}
{{- end -}}
{{- mustMergeOverwrite $targets (deepCopy $service.targets) | toYaml -}}
{{- end -}}

{{- define "signalbox.enabledService" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- if not (hasKey $root.Values.services $name) -}}
{{- fail (printf "%s names %q, which is not one of services" (index . 2) $name) -}}
{{- end -}}
{{- $service := mustMergeOverwrite (deepCopy $root.Values.serviceDefaults) (deepCopy (get $root.Values.services $name)) -}}
{{- if not $service.enabled -}}
{{- fail (printf "%s names %q, which is not enabled" (index . 2) $name) -}}
{{- end -}}
{{- toYaml $service -}}
{{- end -}}

{{- define "signalbox.modelBaseUrl" -}}
{{- if .Values.model.baseUrl -}}
{{- .Values.model.baseUrl -}}
{{- else if (default dict (get .Values.services "offline_model")).enabled -}}
{{- $service := include "signalbox.enabledService" (list . "offline_model" "model.baseUrl") | fromYaml -}}
{{- printf "http://%s.%s.svc:%v/v1" (include "signalbox.serviceName" (list . "offline_model")) .Release.Namespace $service.port -}}
{{- else -}}
{{- fail "model.baseUrl is empty: give the URL of an OpenAI-compatible endpoint, or enable services.offline_model" -}}
{{- end -}}
{{- end -}}

{{/* Port of a URL, by its scheme when it names none. */}}
{{- define "signalbox.portOf" -}}
{{- $url := urlParse . -}}
{{- $named := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (eq $url.scheme "https")) $named -}}
{{- end -}}
