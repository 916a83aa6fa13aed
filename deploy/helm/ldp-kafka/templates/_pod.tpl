{{/* What a container is told of Kafka, and nothing of a side that its pod does not reach:
     (root, sides) */}}
{{- define "ldp-kafka.env" -}}
{{- range $name, $value := .root.Values.topology.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $variable := .root.Values.topology.variables }}
{{- if has $variable.block (append $.sides "kafka") }}
{{- $place := include "ldp-kafka.place" $variable }}
{{- $block := include "ldp-kafka.block" (dict "root" $.root "block" $variable.block) | fromYaml }}
{{- if hasKey $block.env $variable.name }}
{{- if $variable.secret }}
{{- fail (printf "%s.env.%s: holds a secret: it must come from %s.secret" $place $variable.name $place) }}
{{- end }}
- name: {{ $variable.name }}
  value: {{ index $block.env $variable.name | quote }}
{{- else if $block.secret }}
- name: {{ $variable.name }}
  valueFrom:
    secretKeyRef:
      name: {{ $block.secret }}
      key: {{ index $block.keys $variable.name | default $variable.name }}
      {{- if not $variable.required }}
      optional: true
      {{- end }}
{{- else if $variable.required }}
{{- fail (printf "%s needs the variable %s: give %s.secret%s" $.root.Values.topology.name $variable.name $place ($variable.secret | ternary "" (printf ", or %s.env.%s" $place $variable.name))) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $block := list "kafka" "edge" "collector" }}
{{- range $name, $value := (include "ldp-kafka.block" (dict "root" $.root "block" $block) | fromYaml).env }}
{{- $known := false }}
{{- range $variable := $.root.Values.topology.variables }}
{{- if and (eq $variable.name $name) (eq $variable.block $block) }}{{ $known = true }}{{ end }}
{{- end }}
{{- if not $known }}
{{- fail (printf "%s.env.%s: %s has no such variable in that block" (include "ldp-kafka.place" (dict "block" $block)) $name $.root.Values.topology.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What a worker is told: where the edge's files are, if its role needs them, and the above:
     (root, facts, settings) */}}
{{- define "ldp-kafka.workerEnv" -}}
{{- if .facts.key }}
- name: {{ .root.Values.topology.key.variable }}
  value: /etc/ldp-kafka/key/edge.key
{{- with .root.Values.topology.budget.variable }}
- name: {{ . }}
  value: /etc/ldp-kafka/topology/{{ $.root.Values.edge.budget.item }}
{{- end }}
{{- end }}
{{- range $name, $value := .settings.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- include "ldp-kafka.env" (dict "root" .root "sides" .facts.sides) }}
{{- end }}

{{/* The Secrets with files of the sides that a pod reaches: (root, sides) */}}
{{- define "ldp-kafka.fileMounts" -}}
{{- range $block := append .sides "kafka" }}
{{- if (include "ldp-kafka.block" (dict "root" $.root "block" $block) | fromYaml).files }}
- name: {{ $block }}-files
  mountPath: /etc/ldp-kafka/{{ $block }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "ldp-kafka.fileVolumes" -}}
{{- range $block := append .sides "kafka" }}
{{- with (include "ldp-kafka.block" (dict "root" $.root "block" $block) | fromYaml).files }}
- name: {{ $block }}-files
  secret:
    secretName: {{ . }}
    defaultMode: 256  # 0400
{{- end }}
{{- end }}
{{- end }}

{{/* What every pod has in common: (root) */}}
{{- define "ldp-kafka.podCommon" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}
