{{- define "enforcer.selector" -}}
app.kubernetes.io/name: enforcer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "enforcer.labels" -}}
{{ include "enforcer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "enforcer.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "enforcer.port" -}}
{{ regexFind "[0-9]+$" .Values.config.http.listen }}
{{- end }}
