{{/*
The password of devDatabase: the value, else that of the existing Secret, else a new one. Without a cluster to look it up,
each rendering would generate another password and lock all clients out, so the value is required.
*/}}
{{- define "wakeboard.devDatabasePassword" -}}
{{- if .Values.devDatabase.password -}}
{{ .Values.devDatabase.password }}
{{- else }}
{{- $kept := lookup "v1" "Secret" .Release.Namespace (include "wakeboard.name" (list . "dev-database")) }}
{{- if $kept -}}
{{ b64dec $kept.data.password }}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail "devDatabase.password is empty. Without a cluster (helm template, Argo CD, a client-side dry run) the chart cannot look up the password of the first install. Set one, e.g. --set devDatabase.password=evaluation." }}
{{- else -}}
{{ randAlphaNum 32 }}
{{- end }}
{{- end }}
{{- end }}
