{{- define "countersign.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of every component. */}}
{{- define "countersign.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "countersign.labels" -}}
{{ include "countersign.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "countersign.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default (printf "%s-slim" .Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}

{{/* The environment of the service and of the migration. */}}
{{- define "countersign.env" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.existingSecret }}
      key: {{ .Values.database.key }}
- name: COUNTERSIGN_MASTER_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.masterKey.existingSecret }}
      key: {{ .Values.masterKey.key }}
- name: HOST
  value: "0.0.0.0"
- name: PORT
  value: "8080"
- name: COUNTERSIGN_PUBLIC_URL
  value: {{ .Values.publicUrl | quote }}
- name: COUNTERSIGN_STOP_DELAY_SECONDS
  value: {{ .Values.stop.delaySeconds | quote }}
- name: COUNTERSIGN_STOP_SECONDS
  value: {{ .Values.stop.drainSeconds | quote }}
{{- with .Values.trustedProxies }}
- name: COUNTERSIGN_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
{{- if .Values.certificateAuthority.existingConfigMap }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/countersign/ca.crt
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $source := .Values.secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $source.secret }}
      key: {{ $source.key }}
{{- end }}
{{- end -}}

{{/* What pods of the service and of the migration have in common. Pod Security Standard: restricted. */}}
{{- define "countersign.pod" -}}
automountServiceAccountToken: false
# Variables such as COUNTERSIGN_PORT, which Kubernetes would add for the Service, are none of the service's settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.certificateAuthority.existingConfigMap }}
volumes:
  - name: certificate-authority
    configMap:
      name: {{ .Values.certificateAuthority.existingConfigMap }}
      items:
        - key: {{ .Values.certificateAuthority.key }}
          path: ca.crt
{{- end }}
{{- end -}}

{{- define "countersign.container" -}}
image: {{ include "countersign.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- if .Values.certificateAuthority.existingConfigMap }}
volumeMounts:
  - name: certificate-authority
    mountPath: /etc/countersign
    readOnly: true
{{- end }}
{{- end -}}

{{/* The egress rules for the database and the name servers. */}}
{{- define "countersign.databaseEgress" -}}
- to:
    {{- toYaml .Values.networkPolicy.database.to | nindent 4 }}
  ports:
    {{- range .Values.networkPolicy.database.ports }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
- to:
    {{- toYaml .Values.networkPolicy.dns.to | nindent 4 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end -}}

{{/* The networks that the service does not take for public: src/domain/network/PublicAddress.ts. */}}
{{- define "countersign.nonPublicIPv4" -}}
{{- range list "0.0.0.0/8" "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "168.63.129.16/32" "169.254.0.0/16" "172.16.0.0/12" "192.0.0.0/24" "192.0.2.0/24" "192.31.196.0/24" "192.52.193.0/24" "192.88.99.0/24" "192.168.0.0/16" "192.175.48.0/24" "198.18.0.0/15" "198.51.100.0/24" "203.0.113.0/24" "224.0.0.0/3" }}
- {{ . }}
{{- end }}
{{- end -}}
{{- define "countersign.nonPublicIPv6" -}}
{{- range list "2001::/23" "2001:db8::/32" "2002::/16" "2620:4f:8000::/48" "3fff::/20" }}
- {{ . | quote }}
{{- end }}
{{- end -}}
