{{/*
The web board. Without a login it listens on loopback, where only `kubectl port-forward` reaches it.
*/}}

{{/* "true" if users log in, else empty. */}}
{{- define "wakeboard.boardHasLogin" -}}
{{- if ne .Values.board.login "none" }}true{{ end }}
{{- end }}

{{/* "true" if RBAC of the cluster decides what users may see and do, else empty. */}}
{{- define "wakeboard.boardAsksRbac" -}}
{{- if has .Values.board.login (list "kubernetes" "proxy") }}true{{ end }}
{{- end }}

{{/* "true" if there is a Service, else empty. */}}
{{- define "wakeboard.boardHasService" -}}
{{- if and .Values.board.enabled (or .Values.board.service.enabled .Values.board.ingress.enabled .Values.board.httpRoute.enabled) }}true{{ end }}
{{- end }}

{{/* The public origin; empty: that of each request. */}}
{{- define "wakeboard.boardOrigin" -}}
{{- $board := .Values.board }}
{{- if $board.origin }}{{ $board.origin }}
{{- else if and $board.ingress.enabled $board.ingress.tls }}https://{{ $board.ingress.host }}
{{- end }}
{{- end }}

{{/* The host names under which browsers reach it, as a JSON list. The board itself adds that of its origin. */}}
{{- define "wakeboard.boardHosts" -}}
{{- $hosts := .Values.board.hosts }}
{{- if and .Values.board.ingress.enabled .Values.board.ingress.host }}{{- $hosts = append $hosts .Values.board.ingress.host }}{{- end }}
{{- if .Values.board.httpRoute.enabled }}{{- $hosts = concat $hosts .Values.board.httpRoute.hostnames }}{{- end }}
{{- uniq $hosts | toJson }}
{{- end }}

{{- define "wakeboard.boardEnv" -}}
{{- $settings := merge (dict "origin" (include "wakeboard.boardOrigin" .) "hosts" (include "wakeboard.boardHosts" . | fromJsonArray)) .Values.board }}
{{- include "wakeboard.databaseEnv" (list . "viewer") }}
{{- if not (include "wakeboard.oneRole" .) }}
- name: WAKEBOARD_BOARD_ACTING_DSN
  {{- include "wakeboard.dsnOf" (list . "operator" (include "wakeboard.databaseSecret" .)) | nindent 2 }}
{{- end }}
{{- if and .Values.database.existingSecret .Values.database.keys.read }}
- name: WAKEBOARD_READ_DSN
  valueFrom:
    secretKeyRef:
      name: {{ include "wakeboard.databaseSecret" . }}
      key: {{ .Values.database.keys.read | quote }}
{{- end }}
- name: WAKEBOARD_BOARD_BIND
  value: {{ ternary "*" "127.0.0.1" (eq (include "wakeboard.boardHasLogin" .) "true") | quote }}
- name: WAKEBOARD_BOARD_PORT
  value: "8686"
{{ include "wakeboard.settings" (list $settings (list "name" "login" "hosts" "origin" "prefix" "watchOrigins") "BOARD_") | trim }}
{{- if eq .Values.board.login "tokens" }}
- name: WAKEBOARD_BOARD_TOKENS_FILE
  value: /etc/wakeboard/login/tokens
{{- end }}
{{- if eq .Values.board.login "proxy" }}
- name: WAKEBOARD_BOARD_PROXY_SECRET_FILE
  value: /etc/wakeboard/login/secret
{{ include "wakeboard.settings" (list .Values.board (list "proxyUserHeader" "proxyGroupsHeader") "BOARD_") | trim }}
{{- end }}
{{- if .Values.board.watchSecretName }}
- name: WAKEBOARD_BOARD_WATCH_SECRETS_FILE
  value: /etc/wakeboard/watch/secrets
{{- end }}
- name: WAKEBOARD_LISTEN
  value: {{ and .Values.database.listen (not .Values.database.pgbouncer) | quote }}
{{- with .Values.log.link }}
- name: WAKEBOARD_LOG_LINK
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The Secret of the login; empty: it has none. */}}
{{- define "wakeboard.boardLoginSecret" -}}
{{- if eq .Values.board.login "tokens" }}{{ .Values.board.tokensSecretName }}{{ end }}
{{- if eq .Values.board.login "proxy" }}{{ .Values.board.proxySecretName }}{{ end }}
{{- end }}

{{/* How the kubelet asks whether it answers. On loopback only a program in the pod can ask. */}}
{{- define "wakeboard.boardProbe" -}}
{{- if include "wakeboard.boardHasLogin" . -}}
httpGet: {path: /healthz, port: http}
{{- else -}}
exec: {command: [wakeboard, board, --probe]}
{{- end }}
{{- end }}
