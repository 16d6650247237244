{{/*
What pods have in common: settings as environment variables, the way to the database, and where they are placed.
*/}}

{{/*
Settings as variables: (list $values (list "queues" "leaseSeconds" …)). A setting's value has the setting's name in camelCase.
What is empty is left out: it is empty by default.
*/}}
{{- define "wakeboard.settings" -}}
{{- $values := index . 0 }}
{{- range index . 1 }}
{{- $value := get $values . }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "") (eq (toJson $value) "[]") (eq (toJson $value) "{}")) }}
- name: WAKEBOARD_{{ snakecase . | upper }}
  {{- if kindIs "string" $value }}
  value: {{ $value | quote }}
  {{- else if and (kindIs "slice" $value) (kindIs "string" (first $value)) }}
  value: {{ join "," $value | quote }}
  {{- else }}
  value: {{ toJson $value | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The settings that operators and workers share. */}}
{{- define "wakeboard.commonSettings" -}}
{{ include "wakeboard.settings" (list .Values.duties (list "misfireGraceSeconds" "historyRetentionDays" "idempotencyKeyRetentionDays" "deadRetentionDays")) | trim }}
- name: WAKEBOARD_PREPARED_STATEMENTS
  value: {{ .Values.database.preparedStatements | quote }}
{{ include "wakeboard.logSettings" . }}
{{- end }}

{{- define "wakeboard.logSettings" -}}
- name: WAKEBOARD_LOG_FORMAT
  value: {{ .Values.log.format | quote }}
- name: WAKEBOARD_LOG_LEVEL
  value: {{ .Values.log.level | quote }}
{{- end }}

{{/* Whether everybody logs in as the owner: "true" or nothing. */}}
{{- define "wakeboard.oneRole" -}}
{{- if or .Values.database.oneRole .Values.database.url .Values.devDatabase.enabled }}true{{ end }}
{{- end }}

{{/* The Secret that holds the connection strings. */}}
{{- define "wakeboard.databaseSecret" -}}
{{- if .Values.devDatabase.enabled -}}
{{ include "wakeboard.name" (list . "dev-database") }}
{{- else if .Values.database.url -}}
{{ include "wakeboard.name" (list . "database") }}
{{- else -}}
{{ .Values.database.existingSecret }}
{{- end }}
{{- end }}

{{/* The way to the database as variables: (list $ "worker"), or (list $ "owner" secretName) */}}
{{- define "wakeboard.databaseEnv" -}}
{{- $ := index . 0 }}{{- $role := index . 1 }}
{{- $secret := include "wakeboard.databaseSecret" $ }}
{{- if gt (len .) 2 }}{{- $secret = index . 2 }}{{- end }}
{{- $tls := $.Values.database.tls -}}
- name: WAKEBOARD_DSN
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      {{- if $.Values.database.existingSecret }}
      key: {{ get $.Values.database.keys (ternary "owner" $role (eq (include "wakeboard.oneRole" $) "true")) | quote }}
      {{- else }}
      key: owner-dsn
      {{- end }}
{{- if $tls.secretName }}
- name: PGSSLMODE
  value: {{ $tls.mode | quote }}
{{- range $name, $key := dict "PGSSLROOTCERT" $tls.caKey "PGSSLCERT" $tls.certKey "PGSSLKEY" $tls.keyKey }}
{{- if $key }}
- name: {{ $name }}
  value: /etc/wakeboard/tls/{{ $key }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Pods begin anew when a connection string of the release itself changes: sums of its Secrets, as annotations. */}}
{{- define "wakeboard.ownSecretSums" -}}
{{- if .Values.database.url }}
checksum/database: {{ sha256sum .Values.database.url | trunc 8 | quote }}
{{- end }}
{{- end }}

{{/* The mounts of every container of ours. */}}
{{- define "wakeboard.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.database.tls.secretName }}
- name: database-tls
  mountPath: /etc/wakeboard/tls
  readOnly: true
{{- end }}
{{- end }}

{{/*
The volumes behind them, and a person's own, of which one named `tmp` takes the place of ours: (list $ volumes).
libpq wants a private key that its group may read at most, and root to own it.
*/}}
{{- define "wakeboard.volumes" -}}
{{- $ := index . 0 }}
{{- $names := list }}
{{- range index . 1 }}{{- $names = append $names .name }}{{- end }}
{{- if not (has "tmp" $names) }}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end }}
{{- with $.Values.database.tls.secretName }}
- name: database-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A pod's security context; on OpenShift without ids, which its admission assigns: (list $ context) */}}
{{- define "wakeboard.podSecurityContext" -}}
{{- $ := index . 0 }}{{- $context := index . 1 }}
{{- if $.Values.openshift.enabled }}{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" }}{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* A Deployment's strategy. `rollingUpdate` is left out where another type is set above the default. */}}
{{- define "wakeboard.strategy" -}}
{{- if ne .type "RollingUpdate" }}{{ toYaml (omit . "rollingUpdate") }}{{ else }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The labels of a pod: (list $ component podLabels) */}}
{{- define "wakeboard.podLabels" -}}
{{- $ := index . 0 -}}
{{ include "wakeboard.selectorLabels" . }}
app.kubernetes.io/part-of: wakeboard
{{- with merge (dict) (index . 2) $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where pods go: (list $ part) */}}
{{- define "wakeboard.placement" -}}
{{- $ := index . 0 }}{{- $part := index . 1 }}
{{- with $.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- with get $part $key }}
{{ $key }}: {{- if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables that a person adds. Those that the chart sets have a value of their own: (list $env extra "operator.extraEnv") */}}
{{- define "wakeboard.extraEnv" -}}
{{- $written := dict }}
{{- range fromYamlArray (index . 0) }}{{- $_ := set $written .name true }}{{- end }}
{{- $where := index . 2 }}
{{- range index . 1 }}
{{- if hasKey $written .name }}
{{- fail (printf "%s sets %s, which the chart sets itself: use the value of that name." $where .name) }}
{{- end }}
{{- end }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end }}
