{{/*
Names. A release name may have 53 characters, a CronJob name 52. Longer names are truncated and end with a hash of the whole
name, so that two names never become the same.
*/}}

{{/* The text, truncated to a maximum length with a hash at its end: (list text maximum) */}}
{{- define "wakeboard.truncate" -}}
{{- $text := index . 0 }}{{- $maximum := index . 1 | int }}
{{- if gt (len $text) $maximum -}}
{{ trunc (sub $maximum 9 | int) $text | trimSuffix "-" }}-{{ sha256sum $text | trunc 8 }}
{{- else -}}
{{ $text }}
{{- end }}
{{- end }}

{{/* The prefix of every object name, of at most 30 characters. */}}
{{- define "wakeboard.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride -}}
{{ include "wakeboard.truncate" (list .Values.fullnameOverride 30) }}
{{- else if contains $name .Release.Name -}}
{{ include "wakeboard.truncate" (list .Release.Name 30) }}
{{- else -}}
{{ include "wakeboard.truncate" (list (printf "%s-%s" .Release.Name $name) 30) }}
{{- end }}
{{- end }}

{{/* The name of a component: (list $ "operator") */}}
{{- define "wakeboard.name" -}}
{{ include "wakeboard.fullname" (index . 0) }}-{{ index . 1 }}
{{- end }}

{{/* The name of a cluster-scoped object. It contains the namespace, so that releases of the same name do not collide. */}}
{{- define "wakeboard.clusterName" -}}
{{ include "wakeboard.name" . }}:{{ (index . 0).Release.Namespace }}
{{- end }}

{{/* The name of a pool's CronJob: (list $ "mail"). Its Jobs add 11 characters. */}}
{{- define "wakeboard.cronJobName" -}}
{{ include "wakeboard.truncate" (list (include "wakeboard.name" (list (index . 0) (printf "wake-%s" (index . 1)))) 52) }}
{{- end }}

{{/* The name of a pool's Deployment: (list $ "mail"). Its pods add 17 characters. */}}
{{- define "wakeboard.deploymentName" -}}
{{ include "wakeboard.truncate" (list (include "wakeboard.name" (list (index . 0) (printf "worker-%s" (index . 1)))) 46) }}
{{- end }}

{{- define "wakeboard.operatorServiceAccount" -}}
{{- if .Values.operator.serviceAccount.create -}}
{{ .Values.operator.serviceAccount.name | default (include "wakeboard.name" (list . "operator")) }}
{{- else -}}
{{ required "operator.serviceAccount.create is false: name one that exists in operator.serviceAccount.name." .Values.operator.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "wakeboard.boardServiceAccount" -}}
{{- if .Values.board.serviceAccount.create -}}
{{ .Values.board.serviceAccount.name | default (include "wakeboard.name" (list . "board")) }}
{{- else -}}
{{ required "board.serviceAccount.create is false: name one that exists in board.serviceAccount.name." .Values.board.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The selector labels of a component's pods: (list $ "operator"). They never change. */}}
{{- define "wakeboard.selectorLabels" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "wakeboard.truncate" (list (default $.Chart.Name $.Values.nameOverride) 63) }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object: (list $ "operator") */}}
{{- define "wakeboard.labels" -}}
{{- $ := index . 0 -}}
{{ include "wakeboard.selectorLabels" . }}
app.kubernetes.io/part-of: wakeboard
app.kubernetes.io/managed-by: {{ $.Release.Service }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* `name`, `namespace`, `labels` and `annotations` of an object: (list $ component name) or (list $ component name annotations) */}}
{{- define "wakeboard.metadata" -}}
{{- $ := index . 0 }}
{{- $annotations := dict }}
{{- if gt (len .) 3 }}{{- $annotations = index . 3 }}{{- end }}
{{- include "wakeboard.metadataIn" (list $ (index . 1) (index . 2) $.Release.Namespace $annotations) }}
{{- end }}

{{/* The same in another namespace: (list $ component name namespace) or (list $ component name namespace annotations) */}}
{{- define "wakeboard.metadataIn" -}}
{{- $ := index . 0 }}
{{- $annotations := dict }}
{{- if gt (len .) 4 }}{{- $annotations = index . 4 }}{{- end -}}
name: {{ index . 2 }}
namespace: {{ index . 3 }}
labels:
  {{- include "wakeboard.labels" (list $ (index . 1)) | nindent 2 }}
{{- with merge (dict) $annotations $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The same without a namespace. Labels are last, so that a template can add more. */}}
{{- define "wakeboard.clusterMetadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 2 | quote }}
{{- with $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "wakeboard.labels" (list $ (index . 1)) | nindent 2 }}
{{- end }}

{{/* An image's reference: (list $ $image defaultTag) */}}
{{- define "wakeboard.image" -}}
{{- $ := index . 0 }}{{- $image := index . 1 }}
{{- $repository := $image.repository }}
{{- $first := splitList "/" $repository | first }}
{{- if and $.Values.image.registry (not (or (contains "." $first) (contains ":" $first) (eq $first "localhost"))) }}
{{- $repository = printf "%s/%s" (trimSuffix "/" $.Values.image.registry) $repository }}
{{- end }}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default (index . 2) }}
{{- end }}
{{- end }}
