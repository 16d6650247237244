{{/*
Worker pools: the values of `worker`, overridden by those of the pool. Sprig's merge functions would ignore a false, 0 or
empty value of the pool.
*/}}

{{/* Overrides values of the first map, in place, by those of the second: (list base overrides) */}}
{{- define "wakeboard.overlay" -}}
{{- $base := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) }}
{{- include "wakeboard.overlay" (list (get $base $key) $value) }}
{{- else }}
{{- $_ := set $base $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* One pool as YAML, validated: (list $ "mail") */}}
{{- define "wakeboard.pool" -}}
{{- $ := index . 0 }}{{- $name := index . 1 }}
{{- $pool := deepCopy $.Values.worker }}
{{- $given := deepCopy (get $.Values.pools $name | default dict) }}
{{- if dig "jobs" "enabled" $pool.jobs.enabled $given }}
{{- range $key, $value := include "wakeboard.jobsDefaults" $ | fromYaml }}{{- $_ := set $pool $key $value }}{{- end }}
{{- end }}
{{- include "wakeboard.overlay" (list $pool $given) }}
{{- include "wakeboard.checkPool" (list $name $pool) }}
{{- if and $pool.scaling.enabled (eq $pool.mode "cronjob") }}
{{- $_ := set $pool "drainLookaheadSeconds" (max (int64 $pool.drainLookaheadSeconds) (int64 $pool.scaling.leadSeconds)) }}
{{- end }}
{{- toYaml $pool }}
{{- end }}

{{/*
What a pool with jobs has in place of values of `worker`. Its pods mount a token and execute no handlers, so that nothing of the handlers
(code, secrets, identity) reaches them. Labels and annotations count, because injectors of secrets and identities act on them.
tests/chart/test_job_pools.py names the values that such a pool does take from `worker`.
*/}}
{{- define "wakeboard.jobsDefaults" -}}
mode: forever
graceSeconds: 0
concurrency: 1000
maxTimeoutSeconds: 2678400
lingerSeconds: 0
image: {repository: wakeboard/jobs, tag: "", digest: ""}
handlers: []
httpAllowedHosts: []
httpAllowedPrivateNetworks: []
commands: {}
secretName: ""
secretsDir: ""
extraEnv: []
envFrom: []
initContainers: []
volumes: []
volumeMounts: []
podTemplate: {}
serviceAccountName: ""
startupProbe: {}
livenessProbe: {}
readinessProbe: {}
{{- end }}

{{/* Validates a pool: (list name pool) */}}
{{- define "wakeboard.checkPool" -}}
{{- $name := index . 0 }}{{- $pool := index . 1 }}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" $name)) }}
{{- fail (printf "pools.%s: a pool's name consists of lower-case letters, digits and inner hyphens and has at most 40 characters, e.g. pools.reports." $name) }}
{{- end }}
{{- $minimum := include "wakeboard.maxWakeSeconds" $pool | int64 }}
{{- if eq $pool.mode "forever" }}
{{- if $pool.lingerSeconds }}
{{- fail (printf "pools.%s: lingerSeconds applies to mode cronjob only. Remove it, or do not set mode to forever." $name) }}
{{- end }}
{{- else }}
{{- if and $pool.activeDeadlineSeconds (lt (int64 $pool.activeDeadlineSeconds) $minimum) }}
{{- fail (printf "pools.%s: activeDeadlineSeconds is %d, but a wake may take maxLifetimeSeconds + maxTimeoutSeconds + graceSeconds = %d seconds. Raise it, leave it empty, or lower those." $name (int64 $pool.activeDeadlineSeconds) $minimum) }}
{{- end }}
{{- if gt (int64 $pool.lingerSeconds) (int64 $pool.maxLifetimeSeconds) }}
{{- fail (printf "pools.%s: lingerSeconds (%d) is longer than maxLifetimeSeconds (%d), after which a worker claims nothing." $name (int64 $pool.lingerSeconds) (int64 $pool.maxLifetimeSeconds)) }}
{{- end }}
{{- if gt (int64 $pool.drainLookaheadSeconds) (int64 $pool.maxLifetimeSeconds) }}
{{- fail (printf "pools.%s: drainLookaheadSeconds (%d) is longer than maxLifetimeSeconds (%d), after which a worker claims nothing." $name (int64 $pool.drainLookaheadSeconds) (int64 $pool.maxLifetimeSeconds)) }}
{{- end }}
{{- end }}
{{- if $pool.scaling.enabled }}
{{- if and (eq $pool.mode "cronjob") $pool.scaling.minReplicas }}
{{- fail (printf "pools.%s: scaling.minReplicas applies to mode forever only, because a worker of mode cronjob ends when nothing is due. Remove it, or set mode to forever." $name) }}
{{- end }}
{{- if gt (int64 $pool.scaling.minReplicas) (int64 $pool.scaling.maxReplicas) }}
{{- fail (printf "pools.%s: scaling.minReplicas (%d) is above scaling.maxReplicas (%d)." $name (int64 $pool.scaling.minReplicas) (int64 $pool.scaling.maxReplicas)) }}
{{- end }}
{{- range $pool.queues }}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._/-]*$" .) }}
{{- fail (printf "pools.%s: the queue %q is not a name of letters, digits, dots, underscores, slashes and hyphens." $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $pool.jobs.enabled }}
{{- if not (or $pool.jobs.namespaces $pool.jobs.allNamespaces) }}
{{- fail (printf "pools.%s: jobs.enabled needs the namespaces whose CronJobs the pool may run, e.g. jobs.namespaces: [shop], or jobs.allNamespaces." $name) }}
{{- end }}
{{- if and $pool.jobs.namespaces $pool.jobs.allNamespaces }}
{{- fail (printf "pools.%s: jobs.allNamespaces includes every namespace: leave jobs.namespaces empty." $name) }}
{{- end }}
{{- end }}
{{- if and $pool.secretName $pool.secretsDir }}
{{- fail (printf "pools.%s: secretName mounts the secrets at its own path: leave secretsDir empty." $name) }}
{{- end }}
{{- end }}

{{/* The maximum duration of a wake, in seconds. */}}
{{- define "wakeboard.maxWakeSeconds" -}}
{{ add (int64 .maxLifetimeSeconds) (int64 .maxTimeoutSeconds) (int64 .graceSeconds) }}
{{- end }}

{{/* The service account of a pool with jobs, and of its roles: (list $ "mail") */}}
{{- define "wakeboard.jobsName" -}}
{{ include "wakeboard.truncate" (list (include "wakeboard.name" (list (index . 0) (printf "jobs-%s" (index . 1)))) 63) }}
{{- end }}

{{/* What a pool with jobs may do in a namespace. */}}
{{- define "wakeboard.jobsRules" -}}
- {apiGroups: [batch], resources: [cronjobs], verbs: [get, list]}
- {apiGroups: [batch], resources: [jobs], verbs: [create, get, list, watch, delete]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/log], verbs: [get]}
- {apiGroups: [""], resources: [events], verbs: [list, watch]}
{{- end }}

{{/* The service account of a pool: (list $ name pool) */}}
{{- define "wakeboard.workerServiceAccount" -}}
{{- $ := index . 0 }}{{- $pool := index . 2 -}}
{{- if $pool.jobs.enabled -}}
{{ $pool.serviceAccountName | default (include "wakeboard.jobsName" (list $ (index . 1))) }}
{{- else -}}
{{ $pool.serviceAccountName | default (ternary (include "wakeboard.name" (list $ "worker")) "default" $.Values.workerServiceAccount.create) }}
{{- end }}
{{- end }}

{{/* A worker's pod template: (list $ name pool args) */}}
{{- define "wakeboard.workerTemplate" -}}
{{- include "wakeboard.patched" (list (include "wakeboard.workerPod" .) (index . 2).podTemplate) }}
{{- end }}

{{- define "wakeboard.workerPod" -}}
{{- $ := index . 0 }}{{- $name := index . 1 }}{{- $pool := index . 2 }}{{- $args := index . 3 }}
{{- $alerts := include "wakeboard.deliversAlerts" (list $ $pool) }}
{{- $secrets := list $pool.secretName (ternary $.Values.alerts.secretName "" (eq $alerts "true")) -}}
metadata:
  labels:
    {{- include "wakeboard.podLabels" (list $ "worker") | nindent 4 }}
    wakeboard.dev/pool: {{ $name }}
  {{- with merge (include "wakeboard.secretChecksums" $ | fromYaml) $.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "wakeboard.workerServiceAccount" (list $ $name $pool) }}
  automountServiceAccountToken: {{ $pool.jobs.enabled }}
  enableServiceLinks: false
  {{- if eq $pool.mode "cronjob" }}
  restartPolicy: Never
  {{- end }}
  terminationGracePeriodSeconds: {{ add (int64 $pool.graceSeconds) 10 }}
  securityContext:
    {{- include "wakeboard.podSecurityContext" (list $ $pool.podSecurityContext) | nindent 4 }}
  {{- with include "wakeboard.pullSecrets" $ | trim }}
  {{- nindent 2 . }}
  {{- end }}
  {{- with $pool.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: worker
      image: {{ include "wakeboard.image" (list $ $pool.image $.Chart.AppVersion) }}
      imagePullPolicy: {{ $pool.imagePullPolicy | default $.Values.image.pullPolicy }}
      {{- with $args }}
      args: {{ toJson . }}
      {{- end }}
      env:
        {{- $env := include "wakeboard.workerEnv" (list $ $name $pool) }}
        {{- $env | nindent 8 }}
        {{- with include "wakeboard.extraEnv" (list $env $pool.extraEnv (printf "pools.%s.extraEnv" $name)) | trim }}
        {{- nindent 8 . }}
        {{- end }}
      {{- with $pool.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if eq $pool.mode "forever" }}
      {{- range $probe := list "startupProbe" "livenessProbe" }}
      {{- with get $pool $probe }}
      {{ $probe }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- $readiness := get $pool "readinessProbe" }}
      {{- if kindIs "map" $readiness }}
      readinessProbe:
        {{- toYaml ($readiness | default (include "wakeboard.readinessProbe" $ | fromYaml)) | nindent 8 }}
      {{- end }}
      {{- end }}
      securityContext:
        {{- toYaml $pool.securityContext | nindent 8 }}
      resources:
        {{- toYaml $pool.resources | nindent 8 }}
      volumeMounts:
        {{- include "wakeboard.mounts" $ | nindent 8 }}
        {{- if $alerts }}
        {{- include "wakeboard.alertsMount" $ | nindent 8 }}
        {{- end }}
        {{- if without $secrets "" }}
        - name: secrets
          mountPath: /etc/wakeboard/secrets
          readOnly: true
        {{- end }}
        {{- with $pool.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "wakeboard.volumes" (list $ $pool.volumes) | trim | nindent 4 }}
    {{- if $alerts }}
    {{- include "wakeboard.alertsVolume" $ | nindent 4 }}
    {{- end }}
    {{- if without $secrets "" }}
    {{- include "wakeboard.secretsVolume" $secrets | trim | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Finds the file that the worker keeps while it is ready. */}}
{{- define "wakeboard.readinessProbe" -}}
exec: {command: [test, -e, {{ include "wakeboard.readyFile" . }}]}
periodSeconds: 5
{{- end }}

{{- define "wakeboard.readyFile" -}}
/tmp/wakeboard-ready
{{- end }}

{{- define "wakeboard.workerEnv" -}}
{{- $ := index . 0 }}{{- $name := index . 1 }}{{- $pool := index . 2 -}}
{{ include "wakeboard.databaseEnv" (list $ "worker") }}
- name: WAKEBOARD_POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: WAKEBOARD_POOL
  value: {{ $name | quote }}
{{- if eq $pool.mode "forever" }}
- name: WAKEBOARD_READY_FILE
  value: {{ include "wakeboard.readyFile" $ }}
{{- end }}
- name: WAKEBOARD_LISTEN
  value: {{ and $.Values.database.listen (not $.Values.database.pgbouncer) | quote }}
{{ include "wakeboard.settings" (list $pool (list
  "queues" "handlers" "concurrency" "threads" "leaseSeconds" "graceSeconds" "pollSeconds" "drainLookaheadSeconds"
  "maxLifetimeSeconds" "maxTimeoutSeconds" "maxWorkers" "httpAllowedHosts" "httpAllowedPrivateNetworks" "httpMaxBodyBytes"
  "commands" "runLogs" "runLogLevel" "runLogMaxBytes")) | trim }}
{{- if $pool.jobs.enabled }}
- name: WAKEBOARD_JOBS_NAMESPACES
  value: {{ ternary "*" (join "," $pool.jobs.namespaces) $pool.jobs.allNamespaces | quote }}
{{ include "wakeboard.settings" (list $pool.jobs (list "allowOverrides" "perSecond" "startSeconds" "ttlSeconds") "JOBS_") | trim }}
{{- end }}
{{- $alerts := include "wakeboard.deliversAlerts" (list $ $pool) }}
{{- if $alerts }}
{{ include "wakeboard.alertsEnv" $ }}
{{- end }}
{{- if or $pool.secretName $pool.secretsDir (and $alerts $.Values.alerts.secretName) }}
- name: WAKEBOARD_SECRETS_DIR
  value: {{ $pool.secretsDir | default "/etc/wakeboard/secrets" | quote }}
{{- end }}
{{ include "wakeboard.sharedSettings" $ }}
{{- end }}

{{/* A queue that a pool serves; `default` if one does. */}}
{{- define "wakeboard.servedQueue" -}}
{{- $served := list }}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- $served = concat $served $pool.queues }}
{{- end }}
{{- if or (has "default" $served) (empty $served) -}}
default
{{- else -}}
{{ first $served }}
{{- end }}
{{- end }}

{{/* The spec of a wake's Job: (list $ name pool) */}}
{{- define "wakeboard.wakeJob" -}}
{{- $ := index . 0 }}{{- $name := index . 1 }}{{- $pool := index . 2 -}}
backoffLimit: 0 # the next wake is the retry
activeDeadlineSeconds: {{ $pool.activeDeadlineSeconds | default (include "wakeboard.maxWakeSeconds" $pool) | int64 }}
ttlSecondsAfterFinished: {{ $pool.ttlSecondsAfterFinished }}
podFailurePolicy:
  rules:
    - action: Ignore # a drained node is no failure: the pod starts on another one
      onPodConditions:
        - {type: DisruptionTarget, status: "True"}
template:
  {{- $args := list }}
  {{- if $pool.lingerSeconds }}{{- $args = list "--linger" (toString (int64 $pool.lingerSeconds)) }}{{- end }}
  {{- include "wakeboard.workerTemplate" (list $ $name $pool $args) | nindent 2 }}
{{- end }}

{{/*
How KEDA scales a pool: (list $ pool). The query counts what executes, so that KEDA does not stop a worker with runs, and the ticks
that become due while a pod starts.
*/}}
{{- define "wakeboard.scaling" -}}
{{- $ := index . 0 }}{{- $pool := index . 1 }}{{- $scaling := $pool.scaling }}
{{- $runs := int64 ($scaling.runsPerWorker | default $pool.concurrency) -}}
pollingInterval: 10
minReplicaCount: {{ $scaling.minReplicas }}
maxReplicaCount: {{ $scaling.maxReplicas }}
triggers:
  - type: postgresql
    metadata:
      query: >-
        select coalesce(sum(due + soon + ticks), 0)::float8
        from wakeboard.backlog('{ {{- join "," $pool.queues -}} }', {{ int64 $scaling.leadSeconds }}, {{ int64 $pool.maxTimeoutSeconds }}, {{ min 1000000 (mul $runs (int64 $scaling.maxReplicas)) }})
      targetQueryValue: {{ $runs | quote }}
      activationTargetQueryValue: "0"
    authenticationRef:
      name: {{ include "wakeboard.name" (list $ "scaling") }}
{{- end }}

{{/* "true" if KEDA scales a pool. */}}
{{- define "wakeboard.scales" -}}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- if $pool.scaling.enabled }}true{{ break }}{{ end }}
{{- end }}
{{- end }}
