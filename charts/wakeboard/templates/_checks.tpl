{{/*
Validates combinations of values. Each error says what to do instead. Included once, by the operator's Deployment.
*/}}
{{- define "wakeboard.check" -}}
{{- $database := .Values.database }}
{{- $ways := 0 }}
{{- if $database.existingSecret }}{{- $ways = add1 $ways }}{{- end }}
{{- if $database.url }}{{- $ways = add1 $ways }}{{- end }}
{{- if .Values.devDatabase.enabled }}{{- $ways = add1 $ways }}{{- end }}
{{- if eq (int $ways) 0 }}
{{- fail "wakeboard needs a Postgres: name a Secret with its connection strings (--set database.existingSecret=NAME). For evaluation, give a connection string (--set database.url=postgresql://…) or let the chart run a database (--set devDatabase.enabled=true)." }}
{{- end }}
{{- if gt (int $ways) 1 }}
{{- fail "Give only one of database.existingSecret, database.url and devDatabase.enabled." }}
{{- end }}
{{- if and $database.pgbouncer $database.preparedStatements }}
{{- fail "database.preparedStatements needs a direct connection: PgBouncer in transaction mode does not keep them. Set only one of database.pgbouncer and database.preparedStatements." }}
{{- end }}
{{- if and .Values.devDatabase.enabled $database.tls.secretName }}
{{- fail "devDatabase does not support TLS: leave database.tls.secretName empty, or use your own Postgres." }}
{{- end }}
{{- if ne (empty $database.tls.certKey) (empty $database.tls.keyKey) }}
{{- fail "Set both database.tls.certKey and database.tls.keyKey, or neither." }}
{{- end }}
{{- if and .Values.devDatabase.enabled (eq .Values.migrations.mode "hook") }}
{{- fail "migrations.mode=hook runs before the database of devDatabase exists: use migrations.mode=initContainer." }}
{{- end }}
{{- if and .Values.operator.namespaces (not .Values.operator.source) }}
{{- fail "operator.namespaces needs operator.source, a name for this set of namespaces, e.g. --set operator.source=k8s:team-a. Without a list, the name is the cluster's uid." }}
{{- end }}
{{- if .Values.board.enabled }}{{- include "wakeboard.checkBoard" . }}{{- end }}
{{- include "wakeboard.checkAlerts" . }}
{{- include "wakeboard.checkJobQueues" . }}
{{- include "wakeboard.checkLabels" (list "commonLabels" .Values.commonLabels) }}
{{- include "wakeboard.checkLabels" (list "operator.podTemplate" (dig "metadata" "labels" dict .Values.operator.podTemplate)) }}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- include "wakeboard.checkLabels" (list (printf "pools.%s.podTemplate" $name) (dig "metadata" "labels" dict $pool.podTemplate)) }}
{{- end }}
{{- include "wakeboard.checkCrd" . }}
{{- end }}

{{/* A worker claims by queue and job type, so of two pools that share a queue either may get the run of a namespace. */}}
{{- define "wakeboard.checkJobQueues" -}}
{{- $others := dict }}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- if $pool.jobs.enabled }}
{{- $jobs := pick $pool.jobs "namespaces" "allNamespaces" "allowOverrides" | toJson }}
{{- range $queue := $pool.queues }}
{{- $other := get $others $queue | default (dict "name" $name "jobs" $jobs) }}
{{- if ne $other.jobs $jobs }}
{{- fail (printf "pools.%s and pools.%s serve the queue %q and run other CronJobs: give each a queue of its own, or both the same jobs.namespaces, jobs.allNamespaces and jobs.allowOverrides." $other.name $name $queue) }}
{{- end }}
{{- $_ := set $others $queue $other }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wakeboard.checkAlerts" -}}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "wakeboard.pool" (list $ $name) | fromYaml }}
{{- if and (include "wakeboard.deliversAlerts" (list $ $pool)) $.Values.alerts.secretName $pool.secretsDir }}
{{- fail (printf "pools.%s: alerts.secretName mounts the secrets of receivers at its own path: leave secretsDir empty, or let another queue deliver (alerts.queue)." $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wakeboard.checkBoard" -}}
{{- $board := .Values.board }}
{{- if include "wakeboard.boardHasService" . }}
{{- if not (include "wakeboard.boardHasLogin" .) }}
{{- fail "board.service, board.ingress and board.httpRoute let others reach the board, so it needs a login: set board.login to tokens, kubernetes or proxy. Without a login, use kubectl port-forward." }}
{{- end }}
{{- /* With the login kubernetes, kubectl reaches it without a browser. */}}
{{- if not (or (eq $board.login "kubernetes") (include "wakeboard.boardOrigin" .) (include "wakeboard.boardHosts" . | fromJsonArray)) }}
{{- fail "The board answers only for hosts that it knows: name those that browsers use in board.hosts, e.g. --set board.hosts={jobs.example.com}." }}
{{- end }}
{{- end }}
{{- if and (eq $board.login "tokens") (not $board.tokensSecretName) }}
{{- fail "board.login=tokens needs board.tokensSecretName, a Secret with the token file under the key tokens. `wakeboard board --new-token NAME` prints its lines." }}
{{- end }}
{{- if and (eq $board.login "proxy") (not $board.proxySecretName) }}
{{- fail "board.login=proxy needs board.proxySecretName, a Secret with at least 16 characters under the key secret. The proxy sends them in X-Wakeboard-Proxy-Secret." }}
{{- end }}
{{- if and $board.ingress.enabled (not $board.ingress.host) }}
{{- fail "board.ingress.enabled needs board.ingress.host, the host name under which browsers reach the board." }}
{{- end }}
{{- if and $board.enabled $board.ingress.enabled (has $board.login (list "kubernetes" "tokens")) (not (hasPrefix "https://" (include "wakeboard.boardOrigin" .))) }}
{{- fail (printf "With board.login=%s users send a token, which HTTP shows to everybody on the way: name a certificate in board.ingress.tls, or, if something in front of the Ingress ends TLS, set board.origin to the https:// address of the board." $board.login) }}
{{- end }}
{{- if and $board.httpRoute.enabled (not (and $board.httpRoute.parentRefs $board.httpRoute.hostnames)) }}
{{- fail "board.httpRoute.enabled needs board.httpRoute.parentRefs, the gateways, and board.httpRoute.hostnames, the host names under which browsers reach the board." }}
{{- end }}
{{- include "wakeboard.checkLabels" (list "board.podTemplate" (dig "metadata" "labels" dict $board.podTemplate)) }}
{{- end }}

{{/* Refuses labels that selectors of the chart use: (list "commonLabels" $labels) */}}
{{- define "wakeboard.checkLabels" -}}
{{- $where := index . 0 }}
{{- range $key, $_ := index . 1 }}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) (eq $key "wakeboard.dev/pool") }}
{{- fail (printf "%s sets %s, which the chart sets itself. To change names, use nameOverride or fullnameOverride." $where $key) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Refuses a resource definition that another release owns, with the commands that solve it. Helm's own message only lists
annotations. `helm template` finds no cluster and skips this check.
*/}}
{{- define "wakeboard.checkCrd" -}}
{{- if .Values.crds.enabled }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "jobschedules.wakeboard.dev" }}
{{- if $found }}
{{- $owner := get ($found.metadata.annotations | default dict) "meta.helm.sh/release-name" }}
{{- $where := get ($found.metadata.annotations | default dict) "meta.helm.sh/release-namespace" }}
{{- if or (ne (toString $owner) .Release.Name) (ne (toString $where) .Release.Namespace) }}
{{- $whose := ternary (printf "the release %s in the namespace %s" $owner $where) "no release of Helm" (not (empty $owner)) }}
{{- fail (printf "\n\nThe resource definition jobschedules.wakeboard.dev exists already and belongs to %s.\nIf that release is in use, do not install the definition:\n\n  --set crds.enabled=false\n\nOtherwise transfer it to this release and try again. No schedule is lost:\n\n  kubectl annotate --overwrite crd jobschedules.wakeboard.dev meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s\n  kubectl label --overwrite crd jobschedules.wakeboard.dev app.kubernetes.io/managed-by=Helm\n" $whose .Release.Name .Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
