{{- define "ldp-kafka.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "ldp-kafka.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "ldp-kafka.selector" . }}
{{- end }}

{{- define "ldp-kafka.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What tells the pods of a role: (root, role, its facts) */}}
{{- define "ldp-kafka.roleSelector" -}}
{{ include "ldp-kafka.selector" .root }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "ldp-kafka.roleLabels" -}}
{{ include "ldp-kafka.labels" .root }}
app.kubernetes.io/component: {{ .role }}
ldp-kafka/side: {{ .facts.side }}
{{- end }}

{{/* The roles that run in this release, as YAML. What is said of a role that is not there is a
     mistake: it would be without effect. */}}
{{- define "ldp-kafka.roles" -}}
{{- if not .Values.topology }}
{{- fail "topology: must be given: ldp-kafka helm-values TOPOLOGY > values.yaml, and -f values.yaml" }}
{{- end }}
{{- $found := dict }}
{{- range $role, $facts := .Values.topology.roles }}
{{- if has $facts.side $.Values.sides }}
{{- $_ := set $found $role $facts }}
{{- end }}
{{- end }}
{{- range $role, $settings := .Values.roles }}
{{- if not (hasKey $.Values.topology.roles $role) }}
{{- fail (printf "roles.%s: %s has no such role; it has %s" $role $.Values.topology.name (keys $.Values.topology.roles | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- if not $found }}
{{- fail (printf "sides: %s has no role on the side %s" .Values.topology.name (join ", " .Values.sides)) }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* What holds for one role, as YAML: (root, role) */}}
{{- define "ldp-kafka.settings" -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.workers) (deepCopy (index .root.Values.roles .role | default dict))) }}
{{- end }}

{{/* The most workers that an autoscaler makes of a role: (facts, settings, role) */}}
{{- define "ldp-kafka.maxReplicas" -}}
{{- $most := int .facts.partitions }}
{{- with int .settings.autoscaling.maxReplicas }}
{{- if gt . $most }}
{{- fail (printf "roles.%s.autoscaling.maxReplicas: must be at most %d, the partitions of what the role reads" $.role $most) }}
{{- end }}
{{- $most = . }}
{{- end }}
{{- $most }}
{{- end }}

{{/* How many of a role's workers would stand by: (facts, settings) */}}
{{- define "ldp-kafka.standby" -}}
{{- if .settings.autoscaling.enabled }}0{{ else }}{{ max 0 (sub (int .settings.replicas) (int .facts.partitions)) }}{{ end }}
{{- end }}

{{/* One side's or both sides' values: (root, block) */}}
{{- define "ldp-kafka.block" -}}
{{- if eq .block "kafka" }}{{ toYaml (omit .root.Values.kafka "edge" "collector") }}{{ else }}{{ toYaml (index .root.Values.kafka .block) }}{{ end }}
{{- end }}

{{- define "ldp-kafka.place" -}}
{{ eq .block "kafka" | ternary "kafka" (printf "kafka.%s" .block) }}
{{- end }}

{{- define "ldp-kafka.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "ldp-kafka.file" -}}
/etc/ldp-kafka/topology/{{ .Values.topology.file }}
{{- end }}

{{/* Whose pods those of a side are: (root, side) */}}
{{- define "ldp-kafka.serviceAccount" -}}
{{- $own := index .root.Values.serviceAccounts .side }}
{{- if .root.Values.serviceAccounts.create }}
{{- $own.name | default (printf "%s-%s" (include "ldp-kafka.name" .root) .side) }}
{{- else }}
{{- $own.name | default "default" }}
{{- end }}
{{- end }}
