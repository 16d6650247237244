{{/*
Alert rules: a file in a ConfigMap, which the operator evaluates, and the workers of the queue that delivers.
*/}}

{{/* "true" if there are rules or heartbeats, else empty. */}}
{{- define "wakeboard.hasAlerts" -}}
{{- if or .Values.alerts.rules .Values.alerts.heartbeats }}true{{ end }}
{{- end }}

{{/* "true" if a pool delivers alerts, else empty. Pods with a token get no secrets of receivers: (list $ pool) */}}
{{- define "wakeboard.deliversAlerts" -}}
{{- $ := index . 0 }}{{- $pool := index . 1 }}
{{- if and (not $pool.jobs.enabled) (include "wakeboard.hasAlerts" $) (has ($.Values.alerts.queue | default "default") $pool.queues) }}true{{ end }}
{{- end }}

{{/* The address that messages link to; empty: there is none. */}}
{{- define "wakeboard.boardUrl" -}}
{{- $board := .Values.board }}
{{- $origin := include "wakeboard.boardOrigin" . }}
{{- if and $board.ingress.enabled (not $origin) }}{{- $origin = printf "http://%s" $board.ingress.host }}{{- end }}
{{- if $board.url }}{{ $board.url }}
{{- else if and $board.enabled $origin }}{{ $origin }}{{ $board.prefix }}
{{- end }}
{{- end }}

{{- define "wakeboard.alertsEnv" -}}
- name: WAKEBOARD_ALERTS_FILE
  value: /etc/wakeboard/alerts/alerts.yaml
{{- with include "wakeboard.boardUrl" . }}
- name: WAKEBOARD_BOARD_URL
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "wakeboard.alertsMount" -}}
- name: alerts
  mountPath: /etc/wakeboard/alerts
  readOnly: true
{{- end }}

{{- define "wakeboard.alertsVolume" -}}
- name: alerts
  configMap:
    name: {{ include "wakeboard.name" (list . "alerts") }}
{{- end }}

{{/* A volume with the keys of these Secrets: (list "a" "b"). Empty names are left out. */}}
{{- define "wakeboard.secretsVolume" -}}
{{- $names := without . "" | uniq }}
- name: secrets
  {{- if eq (len $names) 1 }}
  secret:
    secretName: {{ first $names }}
    defaultMode: 0440
  {{- else }}
  projected:
    defaultMode: 0440
    sources:
      {{- range $names }}
      - secret: {name: {{ . }}}
      {{- end }}
  {{- end }}
{{- end }}
