{{/* Label matchers of the operator's metrics, as the monitor labels them. */}}
{{- define "wakeboard.metricsSelector" -}}
{{- $monitoring := .Values.monitoring }}
{{- $job := include "wakeboard.name" (list . "operator") }}
{{- if and $monitoring.podMonitor.enabled (not $monitoring.serviceMonitor.enabled) }}
{{- $job = printf "%s/%s" .Release.Namespace $job }}
{{- end }}
{{- $monitoring.rules.selector | default (printf "namespace=%q,job=%q" .Release.Namespace $job) }}
{{- end }}

{{/* The scrape endpoint of the operator, from the values of a monitor. The port has the same name in the Service and the pod. */}}
{{- define "wakeboard.scrapeEndpoint" -}}
- port: http
  path: /metrics
  interval: {{ .interval }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Metadata with the labels that Prometheus or Grafana selects: (list $ name labels annotations) */}}
{{- define "wakeboard.monitoringMetadata" -}}
{{- $metadata := include "wakeboard.metadata" (list (index . 0) "monitoring" (index . 1) (index . 3)) | fromYaml }}
{{- $_ := set $metadata "labels" (merge (dict) (index . 2) $metadata.labels) }}
{{- toYaml $metadata }}
{{- end }}
