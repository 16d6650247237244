{{/* An egress rule: (list $place "UDP" "TCP"), of a place with `to` (peers; empty: anywhere) and `ports` */}}
{{- define "wakeboard.egressTo" -}}
{{- $place := index . 0 }}{{- $protocols := rest . -}}
- ports:
    {{- range $port := $place.ports }}
    {{- range $protocol := $protocols }}
    - {port: {{ $port }}, protocol: {{ $protocol }}}
    {{- end }}
    {{- end }}
  {{- with $place.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The way to the database; to that of devDatabase if it runs. */}}
{{- define "wakeboard.egressToDatabase" -}}
{{- $database := .Values.networkPolicy.database }}
{{- $place := dict "to" $database.to "ports" (list $database.port) }}
{{- if .Values.devDatabase.enabled }}
{{- $labels := include "wakeboard.selectorLabels" (list . "dev-database") | fromYaml }}
{{- $place = dict "to" (list (dict "podSelector" (dict "matchLabels" $labels))) "ports" (list 5432) }}
{{- end }}
{{- include "wakeboard.egressTo" (list $place "TCP") }}
{{- end }}
