{{/* The labels of one component. */}}
{{- define "floe.labels" -}}
app.kubernetes.io/name: floe
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .driver }}
floe/driver: {{ . }}
{{- end }}
{{- end }}

{{/* What all pods are: no root, nothing to write but the folders of the process, no rights by default. */}}
{{- define "floe.restricted" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "floe.restricted-container" -}}
workingDir: /var/lib/floe
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "floe.pod" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ .executors | default false }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .drain }}
{{ include "floe.restricted" .root }}
containers:
  - name: floe
    image: {{ .root.Values.image }}
    imagePullPolicy: {{ .root.Values.imagePullPolicy }}
    args: {{ toJson .args }}
    {{- include "floe.restricted-container" . | nindent 4 }}
    env:
      - {name: HOME, value: /var/lib/floe}
      - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
      - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
      {{- range .root.Values.env }}
      - {{ toJson . }}
      {{- end }}
    ports:
      - {name: {{ .portName }}, containerPort: {{ .port }}}
    startupProbe: {httpGet: {path: /healthz, port: {{ .portName }}}, periodSeconds: 5, failureThreshold: 60}
    livenessProbe: {httpGet: {path: /healthz, port: {{ .portName }}}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6, terminationGracePeriodSeconds: 30}
    readinessProbe: {httpGet: {path: {{ .ready }}, port: {{ .portName }}}, periodSeconds: 10, timeoutSeconds: 5}
    resources: {{ toJson .resources }}
    volumeMounts:
      - {name: work, mountPath: /var/lib/floe}
      - {name: tmp, mountPath: /tmp}
      - {name: pipelines, mountPath: /etc/floe/pipelines, readOnly: true}
      - {name: targets, mountPath: /etc/floe/targets, readOnly: true}
      - {name: secrets, mountPath: /run/secrets/floe, readOnly: true}
      {{- if .tokens }}
      - {name: tokens, mountPath: /run/secrets/floe-page, readOnly: true}
      {{- end }}
      {{- if .executors }}
      - {name: executors, mountPath: /etc/floe/executors, readOnly: true}
      {{- end }}
      {{- range .root.Values.volumeMounts }}
      - {{ toJson . }}
      {{- end }}
volumes:
  - {name: work, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
  - {name: pipelines, configMap: {name: {{ .root.Values.pipelines }}}}
  - {name: targets, configMap: {name: {{ .root.Values.targets }}}}
  - {name: secrets, secret: {secretName: {{ .root.Values.secrets }}, defaultMode: 0440}}
  {{- if .tokens }}
  - {name: tokens, secret: {secretName: {{ .tokens }}, defaultMode: 0440, items: [{key: page-tokens, path: page-tokens}]}}
  {{- end }}
  {{- if .executors }}
  - {name: executors, configMap: {name: {{ .root.Release.Name }}-executors}}
  {{- end }}
  {{- range .root.Values.volumes }}
  - {{ toJson . }}
  {{- end }}
{{- end }}

{{- define "floe.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "floe.labels" . | nindent 2 }}
{{- end }}

{{- define "floe.template" -}}
metadata:
  labels:
    {{- include "floe.labels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  {{- include "floe.pod" . | nindent 2 }}
{{- end }}
