{{/* Made from the code by `python -m charts.values_schema`: lists of names, parted by spaces. */}}
{{- define "signalbox.names.services" -}}batches code_executor console evaluator gateway graph_executor guard http_api mcp_executor offline_model runtime sql_executor{{- end -}}
{{- define "signalbox.names.agents" -}}data_chat graph_editor incident_investigation sast_investigation sast_triage{{- end -}}
{{- define "signalbox.names.jsonSettings" -}}SIGNALBOX_MODELS SIGNALBOX_MODEL_PRICES SIGNALBOX_OIDC_PARAMETERS SIGNALBOX_POLICIES SIGNALBOX_RETENTION SIGNALBOX_SHADOW_POLICIES SIGNALBOX_STORES{{- end -}}
