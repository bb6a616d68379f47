{{/*
The services, and each pool of runtimes as one more, `pool_<name>`: a runtime from the image of a team, that has what it
takes to execute the team's graphs, and none of the platform's keys.
*/}}
{{- define "signalbox.services" -}}
{{- $root := . -}}
{{- $services := deepCopy .Values.services -}}
{{- range $pool := .Values.pools -}}
{{- $name := printf "pool_%s" ($pool.name | replace "-" "_") -}}
{{- if hasKey $services $name -}}
{{- fail (printf "pools: there are two of the name %s" $pool.name) -}}
{{- end -}}
{{- $env := dict "SIGNALBOX_POOL" $pool.name -}}
{{- with $pool.agents -}}
{{- $_ := set $env "SIGNALBOX_AGENT_FOLDERS" (join "," .) -}}
{{- end -}}
{{- with $pool.succeeds -}}
{{- $_ := set $env "SIGNALBOX_POOL_SUCCEEDS" (join "," .) -}}
{{- end -}}
{{- $runtime := mustMergeOverwrite (deepCopy $root.Values.serviceDefaults) (deepCopy $root.Values.services.runtime) -}}
{{- /* What is kept of its runs' history is for those who can read it. */ -}}
{{- with get $runtime.env "SIGNALBOX_RETENTION" -}}
{{- $_ := set $env "SIGNALBOX_RETENTION" . -}}
{{- end -}}
{{- /* How the runtime gets to the database; a pool may be given a role of its own. */ -}}
{{- $secretEnv := dict -}}
{{- range $setting := list "SIGNALBOX_DATABASE_DSN" "SIGNALBOX_DIRECT_DSN" -}}
{{- with get $runtime.secretEnv $setting -}}
{{- $_ := set $secretEnv $setting . -}}
{{- end -}}
{{- end -}}
{{- $key := "SIGNALBOX_CALLER_TOKEN_PUBLIC_KEY_FILE" -}}
{{- $base := dict "drainS" $runtime.drainS "egressPorts" $runtime.egressPorts "egress" $runtime.egress "env" $env "secretEnv" $secretEnv "secretFiles" (dict $key (get $runtime.secretFiles $key)) -}}
{{- $given := omit $pool "name" "agents" "succeeds" -}}
{{- $_ := set $services $name (mustMergeOverwrite (deepCopy $base) (deepCopy $given) (dict "pool" true)) -}}
{{- end -}}
{{- toJson $services -}}
{{- end -}}
