{{/*
Parts that pods share: settings as environment variables, database access, volumes, security context and scheduling.
*/}}

{{/*
Settings as variables: (list $values (list "queues" "leaseSeconds" …)), or with a prefix of their names as the third. A value
has the setting's name in camelCase. Empty values are omitted, because they are empty by default.
*/}}
{{- define "wakeboard.settings" -}}
{{- $values := index . 0 }}
{{- $prefix := "" }}
{{- if gt (len .) 2 }}{{- $prefix = index . 2 }}{{- end }}
{{- range index . 1 }}
{{- $value := get $values . }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "") (eq (toJson $value) "[]") (eq (toJson $value) "{}")) }}
- name: WAKEBOARD_{{ $prefix }}{{ snakecase . | upper }}
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
{{- define "wakeboard.sharedSettings" -}}
{{ include "wakeboard.settings" (list .Values.maintenance (list "misfireGraceSeconds" "historyRetentionDays" "idempotencyKeyRetentionDays" "deadRetentionDays" "effectRetentionDays" "logRetentionDays" "auditRetentionDays")) | trim }}
- name: WAKEBOARD_PREPARED_STATEMENTS
  value: {{ .Values.database.preparedStatements | quote }}
{{ include "wakeboard.logSettings" . }}
{{- with .Values.openTelemetry.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := .Values.openTelemetry.variables }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "wakeboard.logSettings" -}}
- name: WAKEBOARD_LOG_FORMAT
  value: {{ .Values.log.format | quote }}
- name: WAKEBOARD_LOG_LEVEL
  value: {{ .Values.log.level | quote }}
{{ include "wakeboard.settings" (list .Values.log (list "link") "LOG_") | trim }}
{{- end }}

{{/* "true" if every pod logs in as the owner, else empty. */}}
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

{{/* Where the connection string of a role is: (list $ "worker" secretName) */}}
{{- define "wakeboard.dsnOf" -}}
{{- $ := index . 0 -}}
valueFrom:
  secretKeyRef:
    name: {{ index . 2 }}
    {{- if $.Values.database.existingSecret }}
    key: {{ get $.Values.database.keys (ternary "owner" (index . 1) (eq (include "wakeboard.oneRole" $) "true")) | quote }}
    {{- else }}
    key: owner-dsn
    {{- end }}
{{- end }}

{{/* Database access as variables: (list $ "worker"), or (list $ "owner" secretName) */}}
{{- define "wakeboard.databaseEnv" -}}
{{- $ := index . 0 }}{{- $role := index . 1 }}
{{- $secret := include "wakeboard.databaseSecret" $ }}
{{- if gt (len .) 2 }}{{- $secret = index . 2 }}{{- end }}
{{- $tls := $.Values.database.tls -}}
- name: WAKEBOARD_DSN
  {{- include "wakeboard.dsnOf" (list $ $role $secret) | nindent 2 }}
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

{{/* Checksums of the release's own Secrets, as annotations: pods restart when a connection string changes. */}}
{{- define "wakeboard.secretChecksums" -}}
{{- if .Values.database.url }}
checksum/database: {{ sha256sum .Values.database.url | trunc 8 | quote }}
{{- end }}
{{- end }}

{{/* The volume mounts of every wakeboard container. */}}
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
The volumes of these mounts, and those of the values, of which one named `tmp` replaces the chart's: (list $ volumes).
The mode is 0440 because libpq refuses a private key with wider permissions.
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

{{/* A pod's security context. OpenShift assigns user and group ids, so they are omitted there: (list $ context) */}}
{{- define "wakeboard.podSecurityContext" -}}
{{- $ := index . 0 }}{{- $context := index . 1 }}
{{- if $.Values.openshift.enabled }}{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" }}{{- end }}
{{- toYaml $context }}
{{- end }}

{{/* A Deployment's strategy. Other types than RollingUpdate must not have the default's `rollingUpdate`. */}}
{{- define "wakeboard.strategy" -}}
{{- if ne .type "RollingUpdate" }}{{ toYaml (omit . "rollingUpdate") }}{{ else }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The labels of a pod: (list $ component) */}}
{{- define "wakeboard.podLabels" -}}
{{- $ := index . 0 -}}
{{ include "wakeboard.selectorLabels" . }}
app.kubernetes.io/part-of: wakeboard
{{- with $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A pod template as YAML with the values' `podTemplate` merged over it: (list template podTemplate) */}}
{{- define "wakeboard.patched" -}}
{{- $template := index . 0 | fromYaml }}
{{- include "wakeboard.patch" (list $template (index . 1)) }}
{{- toYaml $template }}
{{- end }}

{{/* Merges the second map into the first, in place. Lists of named things are merged by name, others are replaced: (list base patch) */}}
{{- define "wakeboard.patch" -}}
{{- $base := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- $old := get $base $key }}
{{- if and (kindIs "map" $value) (kindIs "map" $old) }}
{{- include "wakeboard.patch" (list $old $value) }}
{{- else if and (kindIs "slice" $value) (kindIs "slice" $old) $value (kindIs "map" (first $value)) (hasKey (first $value | default dict) "name") }}
{{- $merged := list }}{{- $added := list }}
{{- range $item := $old }}
{{- range $value }}{{- if eq .name $item.name }}{{- include "wakeboard.patch" (list $item .) }}{{- end }}{{- end }}
{{- $merged = append $merged $item }}
{{- end }}
{{- range $item := $value }}
{{- $known := false }}{{- range $old }}{{- if eq .name $item.name }}{{- $known = true }}{{- end }}{{- end }}
{{- if not $known }}{{- $added = append $added $item }}{{- end }}
{{- end }}
{{- $_ := set $base $key (concat $merged $added) }}
{{- else }}
{{- $_ := set $base $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wakeboard.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the short pods of the release run: like the operator's. */}}
{{- define "wakeboard.placement" -}}
{{- include "wakeboard.pullSecrets" . }}
{{- with pick (.Values.operator.podTemplate.spec | default dict) "nodeSelector" "tolerations" "priorityClassName" "runtimeClassName" "schedulerName" "dnsConfig" "dnsPolicy" "hostAliases" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Prefers different nodes for the pods of a component: (list $ "operator") */}}
{{- define "wakeboard.defaultAffinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "wakeboard.selectorLabels" . | nindent 12 }}
{{- end }}

{{/* Additional variables from the values. Refuses those that the chart sets itself: (list $env extra "operator.extraEnv") */}}
{{- define "wakeboard.extraEnv" -}}
{{- $written := dict }}
{{- range fromYamlArray (index . 0) }}{{- $_ := set $written .name true }}{{- end }}
{{- $where := index . 2 }}
{{- range index . 1 }}
{{- if hasKey $written .name }}
{{- fail (printf "%s sets %s, which the chart sets itself. Use the value of that name." $where .name) }}
{{- end }}
{{- end }}
{{- with index . 1 }}
{{ toYaml . }}
{{- end }}
{{- end }}
