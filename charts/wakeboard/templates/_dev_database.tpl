{{/*
The password of devDatabase: the one that is given, else the one that its Secret holds, else a new one. Where nothing can be
looked up, a new one at each rendering would lock everybody out of the data, so one must be given.
*/}}
{{- define "wakeboard.devPassword" -}}
{{- if .Values.devDatabase.password -}}
{{ .Values.devDatabase.password }}
{{- else }}
{{- $kept := lookup "v1" "Secret" .Release.Namespace (include "wakeboard.name" (list . "dev-database")) }}
{{- if $kept -}}
{{ b64dec $kept.data.password }}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail "devDatabase.password is empty, and without a cluster to look at (helm template, Argo CD, a dry run on the client) the password of the first install cannot be kept: give one, e.g. --set devDatabase.password=trial." }}
{{- else -}}
{{ randAlphaNum 32 }}
{{- end }}
{{- end }}
{{- end }}
