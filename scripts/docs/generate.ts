/**
 * Writes the tables of docs/configuration.md, docs/metrics.md and docs/client-methods.md, the vendors of docs/redaction.md and the email of docs/email.md from the code that they describe, between
 * the comments `<!-- generated … -->` and `<!-- end of generated -->`, and the names of settings that the Helm chart allows. With `--check` it writes nothing and fails if one is out of date.
 */
import { DateTime, Metric, Schema } from "effect"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { renderApprovalEmail } from "../../src/domain/approvals/ApprovalEmail.ts"
import { DEFAULT_QUORUM } from "../../src/domain/approvals/Quorum.ts"
import { ApprovalId, SessionId, StepId } from "../../src/domain/Ids.ts"
import { secretKinds } from "../../src/domain/redaction/Redaction/secretKinds.ts"
import { type VariableName, variableNames, variables } from "../../src/server/config/Settings/variables.ts"
import { groups, type Operation } from "../client/contract.ts"
import { format } from "../format.ts"
import * as definitions from "../../src/server/observability/metricDefinitions.ts"
import { readDocument, report, root } from "./markdown.ts"

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

/** The sections of the configuration, each with the names that belong to it. */
const SECTIONS: ReadonlyArray<readonly [title: string, names: RegExp]> = [
  [
    "Address and database",
    /^(PORT|HOST|DATABASE_URL|COUNTERSIGN_(PUBLIC_URL|DIRECT_DATABASE_URL|CREATE_DATABASE|CONNECTION_LIMIT.*|TRUSTED_PROXIES|DATA_DIR|POSTGRES_BIN|USER|STOP_.*))$/
  ],
  ["Responses that clients do not read", /^COUNTERSIGN_UNREAD_RESPONSE_/],
  ["Keys and tokens", /^COUNTERSIGN_(MASTER_KEY|ADMIN_KEY|METRICS_TOKEN|AUDIT_.*)$/],
  [
    "Limits of keys and organizations",
    /^COUNTERSIGN_(RATE_LIMIT_|ORGANIZATION_|KEY_|OPEN_SESSION_LIMIT|STORED_|END_USER_FEEDBACK_|RUN_CONCURRENCY|READ_CONCURRENCY|LARGE_BODY_)/
  ],
  ["Single sign-on", /^COUNTERSIGN_(OIDC|CONSOLE)_/],
  ["Log", /^COUNTERSIGN_(LOG|SLOW)_/],
  ["Email", /^COUNTERSIGN_(SMTP|MAIL)_/],
  ["Outgoing connections", /^COUNTERSIGN_(DNS|EGRESS|PROVIDER)_/],
  ["Webhooks", /^COUNTERSIGN_NOTIFY_/],
  ["Telemetry export", /^COUNTERSIGN_TELEMETRY_/],
  ["The service's own telemetry", /^OTEL_/],
  ["Other", /^/]
]

const settings = (): string => {
  const sections = new Map<string, Array<VariableName>>(SECTIONS.map(([title]) => [title, []]))
  for (const name of variableNames) {
    const [title = ""] = SECTIONS.find(([, names]) => names.test(name)) ?? []
    sections.get(title)?.push(name)
  }
  return [...sections]
    .filter(([, names]) => names.length > 0)
    .map(([title, names]) => {
      const rows = names.map((name) => {
        const { defaultText, description, unit } = variables[name]
        return [`\`${name}\``, defaultText, unit, description]
      })
      return `## ${title}\n\n${table(["Variable", "Default", "Unit", "Meaning"], rows)}`
    })
    .join("\n\n")
}

/** Placeholders for the labels of a metric that is made per set of labels. */
const LABELS = ["a", "b", "c", "d"] as const

/** One object of a metric: a function of the module makes one per set of labels. */
const metricOf = (exported: unknown): ReadonlyArray<Metric.Metric<never, unknown>> => {
  const metric: unknown =
    typeof exported === "function" ? Reflect.apply(exported, undefined, LABELS) : exported
  return Metric.isMetric(metric) ? [metric] : []
}

const metrics = (): string =>
  table(
    ["Metric", "Type", "Labels", "Meaning"],
    Object.values(definitions)
      .flatMap(metricOf)
      .map(({ attributes, description, id, type }) => {
        // `unit` is what OpenTelemetry needs; Prometheus has it in the name.
        const labels = Object.keys(attributes ?? {}).filter((name) => name !== "unit")
        return [
          `\`${id}\``,
          type.toLowerCase(),
          labels.map((name) => `\`${name}\``).join(", "),
          description ?? ""
        ]
      })
      .toSorted(([left = ""], [right = ""]) => (left < right ? -1 : 1))
  )

/** The email that a reviewer gets, as text. */
const email = (): string => {
  const requested_at = DateTime.makeUnsafe("2026-11-21T07:45:53.474Z")
  const { subject, text } = renderApprovalEmail({
    type: "approval.requested",
    approval: {
      approval_id: ApprovalId.make("apr_01a1fcdab2c5734c8048b7c2fed803dd"),
      session_id: SessionId.make("ses_01a1fcdab2b2721292c43b19ab7b6af5"),
      step_id: StepId.make("refund-1"),
      task_id: null,
      tool: "payments.refund",
      action_class: "write",
      status: "pending",
      stage: "reviewer",
      requested_at,
      expires_at: DateTime.add(requested_at, { hours: 1 }),
      escalation_deadline_at: null,
      timeout_action: "reject",
      quorum: DEFAULT_QUORUM,
      votes: [],
      outcome: null,
      decision_source: null
    },
    organization: "acme",
    key: "Ada",
    publicUrl: "https://countersign.example.com"
  })
  return `\`\`\`text\nSubject: ${subject}\n\n${text.trimEnd()}\n\`\`\``
}

/** How a method is called, without its options. */
const callOf = ({ group, isPayloadOptional, name, parts }: Operation): string => {
  const needed = Object.entries(parts).filter(([part, shape]) =>
    part === "payload"
      ? !isPayloadOptional
      : shape.kind !== "struct" || shape.fields.some(({ isOptional }) => !isOptional)
  )
  const params = parts.params?.kind === "struct" ? parts.params.fields.map(({ name }) => name) : []
  if (needed.length === 0) return `${group}.${name}()`
  if (needed.length === 1 && params.join("") === "id") return `${group}.${name}(id)`
  const members = needed.map(([part]) => (part === "params" ? `params: { ${params.join(", ")} }` : part))
  return `${group}.${name}({ ${members.join(", ")} })`
}

/** The methods of the client. */
const methods = (): string =>
  table(
    ["Method", "Does", "Request"],
    groups.flatMap(({ operations }) =>
      operations
        .filter(({ success }) => success.kind !== "events")
        .map((operation) => [
          `\`${callOf(operation)}\``,
          `${operation.summary}${operation.items === undefined ? "" : " (pages)"}`,
          `\`${operation.method} ${operation.path}\``
        ])
    )
  )

/** The vendors whose secrets are recognized by a mark, each with the number of their forms. */
const vendors = (): string => {
  const forms = new Map<string, number>()
  for (const { grammars, vendor } of secretKinds)
    forms.set(vendor, (forms.get(vendor) ?? 0) + grammars.length)
  const all = [...forms].toSorted(([left], [right]) => left.localeCompare(right, "en"))
  const total = all.reduce((sum, [, count]) => sum + count, 0)
  return [
    `${total} forms of ${all.length} vendors and products, in ${secretKinds.length} kinds:`,
    all.map(([vendor, count]) => (count === 1 ? vendor : `${vendor} (${count})`)).join(" · ")
  ].join("\n\n")
}

const GENERATED = /(<!-- generated [^>]*-->\n)[\s\S]*(<!-- end of generated -->)/

/** The rules of the values of the Helm chart, which refuse a misspelt setting. */
const CHART = "scripts/deploy/helm/countersign/values.schema.json"

/** Settings that the chart sets from other values, or that do not apply to it. */
const CHART_SETS =
  /^(HOST|PORT|DATABASE_URL|COUNTERSIGN_(MASTER_KEY|PUBLIC_URL|TRUSTED_PROXIES|STOP_.*|CREATE_DATABASE|DATA_DIR|POSTGRES_BIN|USER))$/

const ChartSchema = Schema.fromJsonString(
  Schema.StructWithRest(
    Schema.Struct({
      definitions: Schema.Struct({
        setting: Schema.Record(Schema.String, Schema.Unknown),
        secretSetting: Schema.Record(Schema.String, Schema.Unknown)
      })
    }),
    [Schema.Record(Schema.String, Schema.Unknown)]
  )
)

/** The same rules with the present settings. */
const chartSchema = (text: string): string => {
  const schema = Schema.decodeUnknownSync(ChartSchema)(text)
  const namesOf = (secret: boolean) =>
    variableNames.filter((name) => variables[name].secret === secret && !CHART_SETS.test(name))
  return JSON.stringify({
    ...schema,
    definitions: {
      setting: { ...schema.definitions.setting, enum: namesOf(false) },
      secretSetting: { ...schema.definitions.secretSetting, enum: namesOf(true) }
    }
  })
}

/** A document with its table as the code says it now. */
const regenerated = async (document: string, content: string): Promise<string> => {
  const text = readDocument(document)
  if (!GENERATED.test(text)) throw new Error(`${document} has no place for generated text`)
  return format(
    document,
    text.replace(GENERATED, (_, start: string, end: string) => `${start}\n${content}\n\n${end}`)
  )
}

const check = process.argv.includes("--check")
const faults: Array<string> = []
for (const [document, text] of [
  ["docs/configuration.md", await regenerated("docs/configuration.md", settings())],
  ["docs/metrics.md", await regenerated("docs/metrics.md", metrics())],
  ["docs/client-methods.md", await regenerated("docs/client-methods.md", methods())],
  ["docs/redaction.md", await regenerated("docs/redaction.md", vendors())],
  ["docs/email.md", await regenerated("docs/email.md", email())],
  [CHART, await format(CHART, chartSchema(readDocument(CHART)))]
] as const) {
  if (text === readDocument(document)) continue
  if (check) faults.push(`${document} is out of date; run: node scripts/docs/generate.ts`)
  else writeFileSync(path.join(root, document), text)
}
report(
  faults,
  `${variableNames.length} settings, ${Object.values(definitions).flatMap(metricOf).length} metrics`
)
