{{/* Stops the rendering for values that the schema can't tell are wrong, in words that say what would be right. */}}
{{- define "signalbox.checks" -}}
{{- if not .Values.enabled -}}
{{- fail "enabled is false: it is for a chart that this one is a part of, whose dependency has `condition: signalbox.enabled`" -}}
{{- end -}}
{{- include "signalbox.checkSecrets" . -}}
{{- include "signalbox.checkServices" . -}}
{{- include "signalbox.checkPolicies" . -}}
{{- end -}}

{{/* A service without an image is one of ours, or misspelt; what it calls, if it is there, is named as we name it. */}}
{{- define "signalbox.checkServices" -}}
{{- $ours := include "signalbox.names.services" . | splitList " " -}}
{{- range $name, $values := .Values.services -}}
{{- if not (or (has $name $ours) (default dict $values).image) -}}
{{- fail (printf "services.%s is none of %s; one from outside says its image" $name ($ours | join ", ")) -}}
{{- end -}}
{{- range $setting, $called := (default dict $values).optionalTargets -}}
{{- if not (or (has $called $ours) (hasKey $.Values.services $called)) -}}
{{- fail (printf "services.%s.optionalTargets.%s names %q, which is not one of services" $name $setting $called) -}}
{{- end -}}
{{- end -}}
{{- range $setting, $ref := (default dict $values).secretFiles -}}
{{- $with := (default dict $ref).with -}}
{{- if and $with (not (or (has $with $ours) (hasKey $.Values.services $with))) -}}
{{- fail (printf "services.%s.secretFiles.%s goes with %q, which is not one of services" $name $setting $with) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An agent that is none of ours is misspelt, unless a service from outside, which may have it, is given the limits. */}}
{{- define "signalbox.checkPolicies" -}}
{{- $ours := include "signalbox.names.services" . | splitList " " -}}
{{- $agents := include "signalbox.names.agents" . | splitList " " -}}
{{- $others := false -}}
{{- range $name, $values := .Values.services -}}
{{- $service := mustMergeOverwrite (deepCopy $.Values.serviceDefaults) (deepCopy (default dict $values)) -}}
{{- $others = or $others (and $service.enabled $service.usesPolicies (not (has $name $ours))) -}}
{{- end -}}
{{- range $agent, $_ := .Values.policies -}}
{{- if not (or $others (has $agent $agents)) -}}
{{- fail (printf "policies.%s: there is no such agent; there are %s" $agent ($agents | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A Secret that nobody uses is a misspelt one. */}}
{{- define "signalbox.checkSecrets" -}}
{{- $used := list "database" "callerToken" "runToken" "model" "sqlDatabase" "console" .Values.model.apiKey.secret -}}
{{- range $name, $values := include "signalbox.services" . | fromJson -}}
{{- range $place := list "secretEnv" "secretFiles" -}}
{{- range $setting, $ref := default dict (get (default dict $values) $place) -}}
{{- $used = append $used $ref.secret -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $alias, $secret := .Values.secrets -}}
{{- if not (has $alias $used) -}}
{{- fail (printf "secrets.%s is used by no service; those that are: %s" $alias ($used | uniq | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
