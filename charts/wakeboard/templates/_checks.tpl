{{/*
What cannot work is refused in a sentence that says what to do instead. Included once, by the operator's Deployment.
*/}}
{{- define "wakeboard.check" -}}
{{- $database := .Values.database }}
{{- $ways := 0 }}
{{- if $database.existingSecret }}{{- $ways = add1 $ways }}{{- end }}
{{- if $database.url }}{{- $ways = add1 $ways }}{{- end }}
{{- if .Values.devDatabase.enabled }}{{- $ways = add1 $ways }}{{- end }}
{{- if eq (int $ways) 0 }}
{{- fail "wakeboard needs a Postgres: name a Secret with its connection strings (--set database.existingSecret=NAME), or for a trial give one (--set database.url=postgresql://…) or let the chart run one (--set devDatabase.enabled=true)." }}
{{- end }}
{{- if gt (int $ways) 1 }}
{{- fail "Give one database: database.existingSecret, database.url or devDatabase.enabled." }}
{{- end }}
{{- if and $database.pgbouncer $database.preparedStatements }}
{{- fail "database.preparedStatements needs a direct connection: PgBouncer in transaction mode does not keep them. Leave one of them out." }}
{{- end }}
{{- if and .Values.devDatabase.enabled $database.tls.secretName }}
{{- fail "devDatabase speaks no TLS: leave database.tls.secretName empty, or bring a Postgres of your own." }}
{{- end }}
{{- if ne (empty $database.tls.certKey) (empty $database.tls.keyKey) }}
{{- fail "database.tls.certKey and database.tls.keyKey belong together: give both or none." }}
{{- end }}
{{- if and .Values.devDatabase.enabled (eq .Values.migrations.mode "hook") }}
{{- fail "migrations.mode=hook runs before the database of devDatabase exists: use migrations.mode=initContainer." }}
{{- end }}
{{- if and .Values.operator.namespaces (not .Values.operator.source) }}
{{- fail "operator.namespaces needs operator.source: a name for what this operator looks at, e.g. --set operator.source=k8s:team-a. Without a list the cluster's own uid is the name." }}
{{- end }}
{{- include "wakeboard.checkLabels" (list "commonLabels" .Values.commonLabels) }}
{{- include "wakeboard.checkLabels" (list "operator.podLabels" .Values.operator.podLabels) }}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- include "wakeboard.checkLabels" (list (printf "pools.%s.podLabels" $name) $pool.podLabels) }}
{{- end }}
{{- include "wakeboard.checkDefinition" . }}
{{- end }}

{{/* Pods are found by labels that the chart sets: (list "commonLabels" $labels) */}}
{{- define "wakeboard.checkLabels" -}}
{{- $where := index . 0 }}
{{- range $key, $_ := index . 1 }}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) (eq $key "wakeboard.dev/pool") }}
{{- fail (printf "%s sets %s, which the chart sets itself. nameOverride and fullnameOverride change names." $where $key) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Helm's own words for a definition that another release made are about annotations. Looked up only to say it better: in
`helm template` there is nothing to find.
*/}}
{{- define "wakeboard.checkDefinition" -}}
{{- if .Values.crds.enabled }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "jobschedules.wakeboard.dev" }}
{{- if $found }}
{{- $owner := get ($found.metadata.annotations | default dict) "meta.helm.sh/release-name" }}
{{- $where := get ($found.metadata.annotations | default dict) "meta.helm.sh/release-namespace" }}
{{- if or (ne (toString $owner) .Release.Name) (ne (toString $where) .Release.Namespace) }}
{{- $whose := ternary (printf "the release %s in the namespace %s" $owner $where) "no release of Helm" (not (empty $owner)) }}
{{- fail (printf "\n\nThe resource definition jobschedules.wakeboard.dev is there already and belongs to %s.\nIf that is in use, leave it alone:\n\n  --set crds.enabled=false\n\nIf it is left over, make it this release's, and try again; no schedule is lost:\n\n  kubectl annotate --overwrite crd jobschedules.wakeboard.dev meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s\n  kubectl label --overwrite crd jobschedules.wakeboard.dev app.kubernetes.io/managed-by=Helm\n" $whose .Release.Name .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
