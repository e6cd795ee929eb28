{{/* A Job that runs commands of the image one after the other. Arguments: root, name, hook, commands (lists of words). */}}
{{- define "goqueue.job" -}}
{{- $root := .root -}}
{{- $server := printf "%s://%s.%s:8080" (include "goqueue.scheme" $root) (include "goqueue.fullname" $root) (include "goqueue.domain" $root) -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "goqueue.fullname" $root }}-{{ .name }}
  labels: {{- include "goqueue.labels" $root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ add (int $root.Values.drainSeconds) 120 }}
  template:
    metadata:
      labels: {{- include "goqueue.hookSelector" $root | nindent 8 }}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      securityContext: {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $last := sub (len .commands) 1 }}
      {{- range $number, $words := .commands }}
      {{- if and (eq $number 0) (gt $last 0) }}
      initContainers:
      {{- end }}
      {{- if eq $number (int $last) }}
      containers:
      {{- end }}
        - name: step-{{ $number }}
          image: {{ include "goqueue.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ concat (list "--server" $server) $words | toJson }}
          env: {{- include "goqueue.clientEnv" $root | default "[]" | nindent 12 }}
          securityContext: {{- include "goqueue.containerSecurity" $root | nindent 12 }}
          resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 256Mi}}
          volumeMounts: {{- include "goqueue.clientMounts" $root | default "[]" | nindent 12 }}
      {{- end }}
      volumes: {{- include "goqueue.clientVolumes" $root | default "[]" | nindent 8 }}
{{- end }}
