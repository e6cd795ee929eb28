{{- define "goqueue.fullname" -}}
{{- if contains "goqueue" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-goqueue" (.Release.Name | trunc 32 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "goqueue.selector" -}}
app.kubernetes.io/name: goqueue
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}

{{- define "goqueue.etcdSelector" -}}
app.kubernetes.io/name: goqueue
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: etcd
{{- end }}

{{- define "goqueue.hookSelector" -}}
app.kubernetes.io/name: goqueue
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: hook
{{- end }}

{{- define "goqueue.labels" -}}
app.kubernetes.io/name: goqueue
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "goqueue.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "goqueue.nodes" -}}{{ include "goqueue.fullname" . }}-nodes{{- end }}
{{- define "goqueue.etcd" -}}{{ include "goqueue.fullname" . }}-etcd{{- end }}
{{- define "goqueue.authSecret" -}}{{ .Values.auth.existingSecret | default (printf "%s-auth" (include "goqueue.fullname" .)) }}{{- end }}
{{- define "goqueue.tlsSecret" -}}{{ .Values.tls.secretName | default (printf "%s-tls" (include "goqueue.fullname" .)) }}{{- end }}
{{- define "goqueue.scheme" -}}{{ ternary "https" "http" .Values.tls.enabled }}{{- end }}
{{- define "goqueue.domain" -}}{{ .Release.Namespace }}.svc.cluster.local{{- end }}
{{- define "goqueue.host" -}}{{ include "goqueue.fullname" . }}-{id}.{{ include "goqueue.nodes" . }}.{{ include "goqueue.domain" . }}{{- end }}

{{- define "goqueue.store" -}}
{{- if .Values.etcd.enabled -}}
{{- $name := include "goqueue.etcd" . -}}
{{- $domain := include "goqueue.domain" . -}}
{{- $all := list -}}
{{- range $one := until (int .Values.etcd.replicas) }}{{ $all = append $all (printf "%s-%d.%s.%s:2379" $name $one $name $domain) }}{{ end -}}
etcd://{{ join "," $all }}
{{- else if .Values.etcd.endpoints -}}
etcd://{{ join "," .Values.etcd.endpoints }}
{{- else -}}
{{- fail "etcd.endpoints must name an etcd where etcd.enabled is false" -}}
{{- end -}}
{{- end }}

{{/* The settings of all nodes; what differs is by the node's number, or in the environment. */}}
{{- define "goqueue.settings" -}}
{{- $name := include "goqueue.fullname" . -}}
{{- $domain := include "goqueue.domain" . -}}
{{- $host := include "goqueue.host" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s" $name $domain) (printf "*.%s.%s" (include "goqueue.nodes" .) $domain) -}}
{{- $hosts = join "," (concat $hosts .Values.allowedHosts) -}}
{{- $node := dict "id_from" "hostname" "host" $host -}}
{{- $cluster := dict "store" (include "goqueue.store" .) "name" .Values.cluster.name "listen" "0.0.0.0:7000" "advertised" (printf "%s:7000" $host) "nodes" (int .Values.cluster.initialNodes) "replication_factor" (int .Values.cluster.replicationFactor) "min_insync_replicas" (int .Values.cluster.minInsyncReplicas) "balance" .Values.cluster.balance -}}
{{- $security := dict -}}
{{- if .Values.auth.enabled -}}
{{- $_ := set $security "authentication" "required" -}}
{{- $_ := set $security "bootstrap_file" "/etc/goqueue/auth/users" -}}
{{- $_ := set $security "super_users" (join "," .Values.auth.superUsers) -}}
{{- if .Values.auth.authorization }}{{ $_ := set $security "authorization" "acl" }}{{ end -}}
{{- $_ := set $cluster "secret_file" "/etc/goqueue/auth/cluster" -}}
{{- else -}}
{{- $_ := set $security "insecure" "on" -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $security "tls_cert_file" "/etc/goqueue/tls/tls.crt" -}}
{{- $_ := set $security "tls_key_file" "/etc/goqueue/tls/tls.key" -}}
{{- if ne .Values.tls.clientAuth "none" -}}
{{- $_ := set $security "tls_client_ca_file" "/etc/goqueue/tls/ca.crt" -}}
{{- $_ := set $security "tls_client_auth" .Values.tls.clientAuth -}}
{{- end -}}
{{- $_ := set $cluster "tls_cert" "/etc/goqueue/tls/tls.crt" -}}
{{- $_ := set $cluster "tls_key" "/etc/goqueue/tls/tls.key" -}}
{{- $_ := set $cluster "tls_ca" "/etc/goqueue/tls/ca.crt" -}}
{{- end -}}
{{- if .Values.etcd.tlsSecret -}}
{{- $_ := set $cluster "ca_file" "/etc/goqueue/etcd/ca.crt" -}}
{{- $_ := set $cluster "cert_file" "/etc/goqueue/etcd/tls.crt" -}}
{{- $_ := set $cluster "key_file" "/etc/goqueue/etcd/tls.key" -}}
{{- end -}}
{{- if .Values.rack.fromNodeLabel }}{{ $_ := set $cluster "rack_file" "/run/goqueue/rack" }}{{ end -}}
{{- $kafka := dict "listen" "0.0.0.0:9092" "advertised" (printf "%s:9092" $host) -}}
{{- if .Values.external.enabled }}{{ $_ := set $kafka "external_listen" "0.0.0.0:9094" }}{{ end -}}
{{- $rest := dict "listen" "0.0.0.0:8080" "allowed_hosts" $hosts -}}
{{- $sqs := dict "listen" "0.0.0.0:9324" "allowed_hosts" $hosts -}}
{{- $own := dict "node" $node "cluster" $cluster "security" $security "kafka" $kafka "rest" $rest "sqs" $sqs "grpc" (dict "listen" "0.0.0.0:9000") "logging" (dict "format" "json") -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.settings)) -}}
{{- end }}

{{/* Whole numbers of a values file come as floats. */}}
{{- define "goqueue.toml" -}}
{{- range $section, $settings := fromYaml (include "goqueue.settings" .) }}
[{{ $section }}]
{{- range $key, $value := $settings }}
{{ $key }} = {{ if kindIs "string" $value }}{{ $value | quote }}{{ else if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{ end }}
{{- end }}

{{- define "goqueue.externalAdvertised" -}}
{{- if eq .Values.external.type "NodePort" -}}
{{ .Values.external.host | default "$(HOST_IP)" }}:{{ .Values.external.nodePort }}+{id}
{{- else -}}
{{ required "external.host must say what clients are told, like kafka-{id}.example.org, where external.type is LoadBalancer" .Values.external.host }}:{{ .Values.external.port }}
{{- end -}}
{{- end }}

{{- define "goqueue.containerSecurity" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* How a hook asks the nodes: as the operator, through the client Service. */}}
{{- define "goqueue.clientEnv" -}}
{{- if .Values.auth.enabled }}
- {name: GOQUEUE_KEY_FILE, value: /etc/goqueue/auth/operator}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: GOQUEUE_CA_FILE, value: /etc/goqueue/tls/ca.crt}
{{- end }}
{{- end }}

{{- define "goqueue.clientMounts" -}}
{{- if .Values.auth.enabled }}
- {name: auth, mountPath: /etc/goqueue/auth, readOnly: true}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/goqueue/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "goqueue.clientVolumes" -}}
{{- if .Values.auth.enabled }}
- {name: auth, secret: {secretName: {{ include "goqueue.authSecret" . }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, secret: {secretName: {{ include "goqueue.tlsSecret" . }}, defaultMode: 0440}}
{{- end }}
{{- end }}
