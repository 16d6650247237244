{{/* An egress rule: (list $target "UDP" "TCP"). A target has `to` (peers, empty: all) and `ports`. */}}
{{- define "wakeboard.egressTo" -}}
{{- $target := index . 0 }}{{- $protocols := rest . -}}
- ports:
    {{- range $port := $target.ports }}
    {{- range $protocol := $protocols }}
    - {port: {{ $port }}, protocol: {{ $protocol }}}
    {{- end }}
    {{- end }}
  {{- with $target.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The egress rule for the database, or for devDatabase if it is enabled. */}}
{{- define "wakeboard.egressToDatabase" -}}
{{- $database := .Values.networkPolicy.database }}
{{- $target := dict "to" $database.to "ports" (list $database.port) }}
{{- if .Values.devDatabase.enabled }}
{{- $labels := include "wakeboard.selectorLabels" (list . "dev-database") | fromYaml }}
{{- $target = dict "to" (list (dict "podSelector" (dict "matchLabels" $labels))) "ports" (list 5432) }}
{{- end }}
{{- include "wakeboard.egressTo" (list $target "TCP") }}
{{- end }}
