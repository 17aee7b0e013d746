import { assert, describe, it } from "@effect/vitest"
import { Ajv } from "ajv"
import { Schema } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import fc from "fast-check"
import { readdirSync } from "node:fs"
import path from "node:path"
import { findTool } from "../../../scripts/deploy/chartTools.ts"
import { ACCOUNT } from "../../../scripts/image/variants.ts"
import { isPublic } from "../../../src/domain/network/PublicAddress.ts"
import { VERSION } from "../../../src/domain/Version.ts"
import { variableNames, variables } from "../../../src/server/config/Settings/variables.ts"
import {
  AnyObject,
  chart,
  helm,
  KUBERNETES,
  readChartFile as read,
  readChartYaml,
  resources,
  run,
  template
} from "../../support/helmChart.ts"

const readYaml = (...name: ReadonlyArray<string>) =>
  Schema.decodeUnknownSync(AnyObject)(readChartYaml(...name))
const templates = readdirSync(path.join(chart, "templates"))
const valuesFiles = ["minimal-values.yaml", "full-values.yaml"]

/** Values over defaults, as Helm merges them. */
const merged = (defaults: unknown, values: unknown): unknown => {
  const isObject = Schema.is(AnyObject)
  if (!isObject(defaults) || !isObject(values)) return values
  const names = new Set([...Object.keys(defaults), ...Object.keys(values)])
  return Object.fromEntries(
    [...names].map((name) => [name, name in values ? merged(defaults[name], values[name]) : defaults[name]])
  )
}

describe("the Helm chart", () => {
  const validate = new Ajv({ strict: false, allErrors: true }).compile(
    Schema.decodeUnknownSync(AnyObject)(JSON.parse(read("values.schema.json")))
  )
  const defaults = readYaml("values.yaml")

  it("has rules for its values, which the examples meet and mistakes do not", () => {
    const minimal = merged(defaults, readYaml("ci", "minimal-values.yaml"))
    for (const name of valuesFiles) {
      validate(merged(defaults, readYaml("ci", name)))
      assert.deepStrictEqual(validate.errors ?? [], [], name)
    }
    const mistakes: ReadonlyArray<readonly [place: string, values: object]> = [
      ["/publicUrl", { publicUrl: "countersign.example.com" }],
      ["/database/existingSecret", { database: { existingSecret: "" } }],
      ["/env", { env: { COUNTERSIGN_LOG_REQEUSTS: "true" } }],
      ["/env/COUNTERSIGN_LOG_REQUESTS", { env: { COUNTERSIGN_LOG_REQUESTS: true } }],
      // A secret as plain text would be in the release, which Helm stores.
      ["/env", { env: { COUNTERSIGN_ADMIN_KEY: "csk_" } }],
      ["/env", { env: { DATABASE_URL: "postgres://" } }],
      ["/secretEnv/COUNTERSIGN_SMTP_URL", { secretEnv: { COUNTERSIGN_SMTP_URL: "smtp://" } }],
      ["/autoscaling/minReplicas", { autoscaling: { minReplicas: 1 } }],
      ["/ingress/host", { ingress: { enabled: true } }],
      // The Deployment selects its pods by these labels.
      ["/podLabels", { podLabels: { "app.kubernetes.io/component": "web" } }],
      ["/metrics/prometheusRule/alerts", { metrics: { prometheusRule: { alerts: { deliveryLaet: {} } } } }],
      [
        "/metrics/prometheusRule/alerts/deliveryLate/threshold",
        { metrics: { prometheusRule: { alerts: { deliveryLate: { threshold: "1m" } } } } }
      ],
      ["", { replica: 3 }]
    ]
    for (const [place, values] of mistakes) {
      assert.isFalse(validate(merged(minimal, values)), JSON.stringify(values))
      assert.include(
        (validate.errors ?? []).map(({ instancePath }) => instancePath),
        place
      )
    }
    assert.isFalse(validate(defaults), "what is required has no default")
  })

  it("sets only variables that the service has, and secrets only from Secrets", () => {
    const text = templates.map((name) => read("templates", name)).join("\n")
    const names = [...text.matchAll(/- name: ([A-Z][A-Z_]+)\n\s+(value|valueFrom):/g)]
    assert.isAbove(names.length, 8)
    for (const [, name = "", member] of names) {
      if (name === "NODE_EXTRA_CA_CERTS") continue
      const known = variableNames.find((one) => one === name)
      if (known === undefined) assert.fail(`${name} is no setting`)
      assert.strictEqual(member, variables[known].secret ? "valueFrom" : "value", name)
    }
  })

  it("has the version of the service and the account of its image", () => {
    assert.deepInclude(readYaml("Chart.yaml"), { version: VERSION, appVersion: VERSION })
    assert.include(read("templates", "_helpers.tpl"), `runAsUser: ${ACCOUNT}\n  runAsGroup: ${ACCOUNT}\n`)
  })

  it("lets pods reach the public addresses that the service takes for public, and no others", () => {
    const helper = (name: string) => {
      const [, list = ""] =
        new RegExp(`"countersign.${name}" -}}\n{{- range list ([^}]+) }}`).exec(
          read("templates", "_helpers.tpl")
        ) ?? []
      return [...list.matchAll(/"([^"]+)"/g)].map(([, cidr = ""]) => IpNetwork.fromStringUnsafe(cidr))
    }
    const denied = [...helper("nonPublicIPv4"), ...helper("nonPublicIPv6")]
    assert.strictEqual(denied.length, 23)
    const global = IpNetwork.fromStringUnsafe("2000::/3")
    const isReachable = (text: string): boolean => {
      const address = NetAddress.ipFromStringUnsafe(text)
      if (text.includes(":") && !IpNetwork.contains(global, address)) return false
      return !denied.some((network) => IpNetwork.contains(network, address))
    }
    // Addresses at both ends of every network, where an off-by-one prefix shows.
    const edges = denied.flatMap((network) =>
      [IpNetwork.firstAddress(network), IpNetwork.lastAddress(network)].map(NetAddress.formatIp)
    )
    // ISATAP addresses embed a private one in any network, which no list of networks can tell.
    const isIsatap = (text: string) => /:0?200:5efe:|:0:5efe:|::5efe:/.test(text)
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6(), fc.constantFrom(...edges)), (text) => {
        fc.pre(!isIsatap(text) && !text.includes("::ffff"))
        assert.strictEqual(isReachable(text), isPublic(NetAddress.ipFromStringUnsafe(text)), text)
      }),
      { numRuns: 3_000 }
    )
  })
})

const kubeconform = findTool("kubeconform")
const missing = helm === undefined ? "helm" : kubeconform === undefined ? "kubeconform" : undefined
if (missing !== undefined)
  process.stdout.write(
    `the Helm chart is not rendered: ${missing} is not installed; npm run chart installs it\n`
  )

const Container = Schema.Struct({
  name: Schema.String,
  image: Schema.String,
  args: Schema.optionalKey(Schema.Array(Schema.String)),
  env: Schema.Array(Schema.Struct({ name: Schema.String, value: Schema.optionalKey(Schema.String) })),
  securityContext: Schema.Unknown,
  readinessProbe: Schema.optionalKey(Schema.Unknown),
  livenessProbe: Schema.optionalKey(Schema.Unknown),
  startupProbe: Schema.optionalKey(Schema.Unknown)
})
const PodTemplate = Schema.Struct({
  metadata: Schema.Struct({ labels: Schema.Record(Schema.String, Schema.String) }),
  spec: Schema.Struct({
    automountServiceAccountToken: Schema.Boolean,
    enableServiceLinks: Schema.Boolean,
    securityContext: Schema.Unknown,
    terminationGracePeriodSeconds: Schema.optionalKey(Schema.Number),
    volumes: Schema.optionalKey(Schema.Array(AnyObject)),
    topologySpreadConstraints: Schema.optionalKey(
      Schema.Array(
        Schema.Struct({
          topologyKey: Schema.String,
          matchLabelKeys: Schema.optionalKey(Schema.Array(Schema.String))
        })
      )
    ),
    containers: Schema.NonEmptyArray(Container)
  })
})
const Workload = Schema.Struct({
  metadata: Schema.Struct({ annotations: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)) }),
  spec: Schema.Struct({
    replicas: Schema.optionalKey(Schema.Number),
    selector: Schema.optionalKey(Schema.Struct({ matchLabels: Schema.Record(Schema.String, Schema.String) })),
    template: PodTemplate
  })
})

const NetworkPolicy = Schema.Struct({
  metadata: Schema.Struct({ annotations: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)) }),
  spec: Schema.Struct({
    podSelector: Schema.Struct({ matchLabels: Schema.Record(Schema.String, Schema.String) }),
    ingress: Schema.optionalKey(Schema.Array(Schema.Unknown)),
    egress: Schema.Array(Schema.Unknown)
  })
})

const workload = (yaml: string, kind: string) =>
  Schema.decodeUnknownSync(Workload)(resources(yaml).find((one) => one["kind"] === kind))

describe.skipIf(missing !== undefined)("the rendered Helm chart", () => {
  it.each(valuesFiles)("passes helm lint --strict and kubeconform -strict with %s", (values) => {
    const linted = run(helm ?? "", ["lint", "--strict", chart, "--values", path.join(chart, "ci", values)])
    assert.isTrue(linted.ok, linted.out + linted.err)
    const rendered = template(values)
    assert.isTrue(rendered.ok, rendered.err)
    const location = path.join(import.meta.dirname, "kubernetes", "{{.ResourceKind}}{{.KindSuffix}}.json")
    const check = (yaml: string) =>
      run(
        kubeconform ?? "",
        ["-strict", "-summary", "-kubernetes-version", KUBERNETES, "-schema-location", location],
        yaml
      )
    const checked = check(rendered.out)
    assert.isTrue(checked.ok, checked.out + checked.err)
    assert.match(checked.out, values === "full-values.yaml" ? /Valid: 10/ : /Valid: 6/)
    // The schemas are strict: a misspelt member is an error.
    assert.isFalse(check(rendered.out.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")).ok)
    assert.isFalse(check(rendered.out.replace("maxUnavailable: 0", "maxUnavailable: {}")).ok)
  })

  it("runs two replicas with probes, and the migration before them, by the restricted Pod Security Standard", () => {
    const { out } = template("minimal-values.yaml")
    const deployment = workload(out, "Deployment")
    const job = workload(out, "Job")
    assert.strictEqual(deployment.spec.replicas, 2)
    assert.deepInclude(job.metadata.annotations, { "helm.sh/hook": "pre-install,pre-upgrade" })
    for (const { spec } of [deployment, job]) {
      const { containers, ...pod } = spec.template.spec
      assert.deepInclude(pod, { automountServiceAccountToken: false, enableServiceLinks: false })
      assert.isUndefined(pod.volumes)
      assert.deepStrictEqual(pod.securityContext, {
        runAsNonRoot: true,
        runAsUser: ACCOUNT,
        runAsGroup: ACCOUNT,
        seccompProfile: { type: "RuntimeDefault" }
      })
      assert.strictEqual(containers.length, 1)
      assert.deepStrictEqual(containers[0].securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] }
      })
      assert.strictEqual(containers[0].image, `countersign:${VERSION}-slim`)
    }
    assert.deepStrictEqual(job.spec.template.spec.containers[0].args, ["migrate"])
    const [service] = deployment.spec.template.spec.containers
    for (const probe of [service.startupProbe, service.readinessProbe, service.livenessProbe])
      assert.isDefined(probe)
    // Only the Job may create the tables.
    assert.deepInclude(service.env, { name: "COUNTERSIGN_CREATE_DATABASE", value: "false" })
    // Also the reason of a failed start, which is plain text unless the format is set.
    assert.deepInclude(service.env, { name: "COUNTERSIGN_LOG_FORMAT", value: "json" })
    assert.notInclude(
      job.spec.template.spec.containers[0].env.map(({ name }) => name),
      "COUNTERSIGN_CREATE_DATABASE"
    )
    // Both phases of the stop end before the pod is killed.
    const seconds = (name: string) => Number(service.env.find((one) => one.name === name)?.value)
    assert.isAbove(
      deployment.spec.template.spec.terminationGracePeriodSeconds ?? 0,
      seconds("COUNTERSIGN_STOP_DELAY_SECONDS") + seconds("COUNTERSIGN_STOP_SECONDS")
    )
    // The Service and the disruption budget select the pods of the service, and not those of the migration.
    const selected = deployment.spec.selector?.matchLabels ?? {}
    assert.deepInclude(deployment.spec.template.metadata.labels, selected)
    for (const kind of ["Service", "PodDisruptionBudget"]) {
      const found = resources(out).find((one) => one["kind"] === kind)
      assert.include(JSON.stringify(found), JSON.stringify(selected))
    }
    assert.notDeepInclude(job.spec.template.metadata.labels, selected)
  })

  it("bundles no database, and shows no secret", () => {
    const { out } = template("full-values.yaml")
    const kinds = resources(out).map((one) => one["kind"])
    for (const kind of ["Secret", "StatefulSet", "PersistentVolumeClaim"]) assert.notInclude(kinds, kind)
    for (const { env } of workload(out, "Deployment").spec.template.spec.containers)
      for (const { name, value } of env)
        if (value !== undefined && name in variables)
          assert.isFalse(
            variables[Schema.decodeUnknownSync(Schema.Literals(variableNames))(name)].secret,
            name
          )
  })

  it("spreads the replicas of each revision, so that a roll-out does not end with all of them on one node", () => {
    const { topologySpreadConstraints = [] } = workload(template("minimal-values.yaml").out, "Deployment")
      .spec.template.spec
    assert.deepStrictEqual(
      topologySpreadConstraints.map(({ matchLabelKeys, topologyKey }) => [topologyKey, matchLabelKeys]),
      [
        ["kubernetes.io/hostname", ["pod-template-hash"]],
        ["topology.kubernetes.io/zone", ["pod-template-hash"]]
      ]
    )
  })

  it("lets the migration reach the database of the new values before they apply to the service", () => {
    const { out } = template("full-values.yaml")
    const policies = resources(out)
      .filter((one) => one["kind"] === "NetworkPolicy")
      .map((one) => Schema.decodeUnknownSync(NetworkPolicy)(one))
    const selects = (kind: string) => {
      const { labels } = workload(out, kind).spec.template.metadata
      return policies.filter(({ spec }) =>
        Object.entries(spec.podSelector.matchLabels).every(([name, value]) => labels[name] === value)
      )
    }
    const [ofService, ...moreOfService] = selects("Deployment")
    const [ofMigration, ...moreOfMigration] = selects("Job")
    assert.deepStrictEqual([moreOfService, moreOfMigration], [[], []])
    assert.isUndefined(ofService?.metadata.annotations)
    const job = workload(out, "Job").metadata.annotations ?? {}
    const policy = ofMigration?.metadata.annotations ?? {}
    for (const name of ["helm.sh/hook", "helm.sh/hook-delete-policy"])
      assert.strictEqual(policy[name], job[name], name)
    assert.isBelow(Number(policy["helm.sh/hook-weight"]), Number(job["helm.sh/hook-weight"]))
    // It serves nothing, and reaches what the service reaches except public addresses.
    assert.deepStrictEqual(ofMigration?.spec.ingress ?? [], [])
    assert.deepStrictEqual(
      ofMigration?.spec.egress,
      ofService?.spec.egress.filter((rule) => !JSON.stringify(rule).includes("0.0.0.0/0"))
    )
    assert.notInclude(
      resources(template("full-values.yaml", "--set", "migrate.enabled=false").out).map(
        (one) =>
          Schema.decodeUnknownSync(Schema.Struct({ metadata: Schema.Struct({ name: Schema.String }) }))(one)
            .metadata.name
      ),
      "countersign-migrate"
    )
  })

  it("refuses values that cannot work, in a sentence", () => {
    const refused = (sentence: RegExp, ...more: ReadonlyArray<string>) => {
      const { err, ok } = template("minimal-values.yaml", ...more)
      assert.isFalse(ok)
      assert.match(err, sentence)
    }
    refused(/set networkPolicy\.database\.to, such as/, "--set-json", "networkPolicy.database.to=[]")
    refused(/set secretEnv\.COUNTERSIGN_METRICS_TOKEN/, "--set", "metrics.serviceMonitor.enabled=true")
    refused(/set secretEnv\.COUNTERSIGN_METRICS_TOKEN/, "--set", "metrics.prometheusRule.enabled=true")
    refused(/publicUrl/, "--set", "publicUrl=example.com")
    refused(
      /autoscaling\.maxReplicas must be at least autoscaling\.minReplicas/,
      ...["--set", "autoscaling.enabled=true,autoscaling.minReplicas=7"]
    )
  })
})
