{{- define "treeline.name" -}}
{{- if contains "treeline" .Release.Name }}{{ .Release.Name | trunc 63 }}{{ else }}{{ printf "%s-treeline" .Release.Name | trunc 63 }}{{ end -}}
{{- end }}

{{- define "treeline.selector" -}}
app.kubernetes.io/name: treeline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "treeline.labels" -}}
{{ include "treeline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
