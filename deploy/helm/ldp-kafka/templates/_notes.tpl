{{/* What is said at the end of an installation. */}}
{{- define "ldp-kafka.notes" -}}
{{ .Values.topology.name }} (fingerprint {{ .Values.topology.fingerprint }}):
{{- range $role, $facts := include "ldp-kafka.roles" . | fromYaml }}
  {{ $role }}: {{ $facts.side }}, at most {{ $facts.partitions }} workers with partitions
{{- end }}

Ready: kubectl -n {{ .Release.Namespace }} get pods -l app.kubernetes.io/instance={{ .Release.Name }}
What the next release waits for: ldp-kafka status {{ .Values.topology.file }}
{{- range $role, $facts := include "ldp-kafka.roles" . | fromYaml }}
{{- $settings := include "ldp-kafka.settings" (dict "root" $ "role" $role) | fromYaml }}
{{- $standby := include "ldp-kafka.standby" (dict "facts" $facts "settings" $settings) | int }}
{{- if gt $standby 0 }}

WARNING: {{ $standby }} of {{ $settings.replicas }} workers of {{ $role }} stand by: what the role reads has {{ $facts.partitions }} partitions.
{{- end }}
{{- end }}
{{- if .Values.topology.oneBlock }}

WARNING: one kafka block serves both sides: the collector can read the raw topic. Give the topology kafka.edge and kafka.collector.
{{- end }}
{{- if not .Values.networkPolicy.enabled }}

WARNING: no NetworkPolicy: pods of the collector can reach whatever the cluster lets them reach.
{{- end }}
{{- end }}
