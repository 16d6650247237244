{{- define "wakeboard.operatorEnv" -}}
{{ include "wakeboard.databaseEnv" (list . "operator") }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: WAKEBOARD_OPERATOR_PORT
  value: "8080"
- name: WAKEBOARD_RELEASE
  value: {{ printf "%s/%s" .Release.Namespace .Release.Name | quote }}
{{ include "wakeboard.settings" (list .Values.operator (list
  "source" "namespaces" "tenancy" "adoptForeignSchedules" "watchWorkerPods" "reconcileSeconds" "statusWritesPerSecond" "statusMinIntervalSeconds"
  "statusErrors" "leaderLeaseSeconds")) | trim }}
{{- if .Values.limits }}
- name: WAKEBOARD_LIMITS_FILE
  value: /etc/wakeboard/limits/limits.yaml
{{- end }}
{{- if include "wakeboard.hasAlerts" . }}
{{ include "wakeboard.alertsEnv" . }}
{{- if .Values.alerts.secretName }}
- name: WAKEBOARD_SECRETS_DIR
  value: /etc/wakeboard/secrets
{{- end }}
{{- end }}
{{ include "wakeboard.sharedSettings" . }}
{{- end }}

{{/* The migration container. With a role for each part, no other container gets the owner's connection string: (list $ secretName) */}}
{{- define "wakeboard.migrateContainer" -}}
{{- $ := index . 0 }}{{- $secret := index . 1 -}}
- name: migrate
  image: {{ include "wakeboard.image" (list $ $.Values.operator.image $.Chart.AppVersion) }}
  imagePullPolicy: {{ $.Values.operator.imagePullPolicy | default $.Values.image.pullPolicy }}
  command: [wakeboard, migrate, --wait, {{ $.Values.migrations.waitSeconds | quote }}]
  env:
    {{- include "wakeboard.databaseEnv" (list $ "owner" $secret) | nindent 4 }}
    {{- range $role, $name := $.Values.database.roles }}
    {{- if $name }}
    - name: WAKEBOARD_{{ upper $role }}_ROLE
      value: {{ $name | quote }}
    {{- end }}
    {{- end }}
    {{- include "wakeboard.settings" (list $.Values.maintenance (list "auditRetentionDays")) | trim | nindent 4 }}
    {{- include "wakeboard.logSettings" $ | nindent 4 }}
  securityContext:
    {{- toYaml $.Values.operator.securityContext | nindent 4 }}
  resources:
    {{- toYaml $.Values.migrations.resources | nindent 4 }}
  volumeMounts:
    {{- include "wakeboard.mounts" $ | nindent 4 }}
    {{- with $.Values.operator.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The operator's permissions in the namespaces that it watches. */}}
{{- define "wakeboard.operatorRules" -}}
- {apiGroups: [wakeboard.dev], resources: [jobschedules], verbs: [get, list, watch]}
- {apiGroups: [wakeboard.dev], resources: [jobschedules/status], verbs: [patch]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get]} # to distinguish a deleted namespace from missing objects
{{- end }}

{{/* The pod of the migration hook: (list $ secretName) */}}
{{- define "wakeboard.migratePod" -}}
{{- $ := index . 0 -}}
metadata:
  labels:
    {{- include "wakeboard.podLabels" (list $ "migrate") | nindent 4 }}
  {{- with $.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: Never
  securityContext:
    {{- include "wakeboard.podSecurityContext" (list $ $.Values.operator.podSecurityContext) | nindent 4 }}
  {{- with include "wakeboard.placement" $ | trim }}
  {{- nindent 2 . }}
  {{- end }}
  {{- with $.Values.operator.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    {{- include "wakeboard.migrateContainer" . | nindent 4 }}
  volumes:
    {{- include "wakeboard.volumes" (list $ $.Values.operator.volumes) | trim | nindent 4 }}
{{- end }}
